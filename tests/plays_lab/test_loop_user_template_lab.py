"""`loop`, `user` and templates on real hosts, by an ordinary user with sudo."""

from __future__ import annotations

import json

import pytest

from tests.plays_lab.playing import HOSTS, Playing, needs_sudo

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]
PLAY = """\
vars: {port: "2000", first: alice}
sudo: true
steps:
  - sh: {cmd: "groupadd ${item}", unless: "getent group ${item}", changes: [/etc/group]}
    loop: [video2, cluster]
  - user: {name: "${item.name}", uid: "${item.uid}", groups: ["cluster"], shell: /bin/sh}
    loop:
      - {name: "${first}", uid: 4101}
      - {name: bob, uid: 4102}
  - copy: {src: app.tmpl, dest: /etc/app.conf, mode: "0640", owner: alice, template: true}
  - copy: {src: "${item}.tmpl", dest: "/opt/${item}/", template: true}
    loop: [one, two]
  - file: {path: /home/bob/own, owner: bob, content: ""}
"""
TEMPLATE = "host = ${host}\ncpus = ${fact.cpus}\nport = ${port}\nliteral = $${x} $HOME\n"


@pytest.fixture
def ready(hosts: Playing) -> Playing:
    needs_sudo()
    hosts.allow_sudo(HOSTS)
    hosts.folder.joinpath("app.tmpl").write_text(TEMPLATE)
    for name in ("one", "two"):
        hosts.folder.joinpath(f"{name}.tmpl").write_text(f"{name} ${{secret.TOKEN}}\n")
        for host in HOSTS:
            hosts.on(host, "mkdir", "-p", f"/opt/{name}")
    return hosts


def test_check_then_play_then_nothing(ready, monkeypatch):
    monkeypatch.setenv("TOKEN", "hunter2-of-mine")
    predicted = ready.predicted_and_done(PLAY, "--diff")
    assert {predicted[n, host] for n in (3, 4, 6, 7) for host in HOSTS} == {"would change"}
    assert "failed" not in predicted.values()  # the account of the owner is still to be made
    for host in HOSTS:
        assert ready.on(host, "id", "-u", "alice").strip() == "4101"
        assert "cluster" in ready.on(host, "id", "-nG", "bob").split()
        assert ready.on(host, "stat", "-c", "%U %a", "/etc/app.conf") == "alice 640\n"
        lines = ready.on(host, "cat", "/etc/app.conf").splitlines()
        assert lines[0] == f"host = {host}" and lines[1].removeprefix("cpus = ").isdigit()
        assert lines[2:] == ["port = 2000", "literal = ${x} $HOME"]
        assert ready.on(host, "cat", "/opt/two/two.tmpl") == "two hunter2-of-mine\n"
    for words in ((), ("--check",)):
        code, again = ready.states(PLAY, *words)
        assert code == 0 and set(again.values()) == {"ok"}
    done = ready.run(PLAY, "--check", "--diff", "-e", "port=3000", "-l", "node02")
    assert done.returncode == 10 and "+port = 3000" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr


def test_an_account_is_changed_and_removed(ready):
    def states(step: str) -> tuple[str, ...]:
        found = []
        for words in (("--check",), (), ()):
            _, states = ready.states(
                f"sudo: true\nsteps:\n  - user: {step}\n", "-l", HOSTS[0], *words
            )
            found.append(states[1, HOSTS[0]])
        return tuple(found)

    def on(*command: str) -> str:
        return ready.on(HOSTS[0], *command)

    changes = ("would change", "changed", "ok")
    assert states("{name: carol, home: /srv/carol}") == changes
    assert "/srv/carol" in on("getent", "passwd", "carol") and on("ls", "-d", "/srv/carol")
    assert states("{name: carol, groups: [daemon, sys]}") == changes
    assert states("{name: carol, groups: [bin], append: true}") == changes
    assert set(on("id", "-nG", "carol").split()) >= {"daemon", "sys", "bin"}
    assert states("{name: carol, groups: [bin]}") == changes
    assert not {"daemon", "sys"} & set(on("id", "-nG", "carol").split())
    assert states("{name: carol, groups: []}") == changes
    assert states("{name: carol, shell: /usr/sbin/nologin, uid: 4300}") == changes
    assert on("getent", "passwd", "carol").startswith("carol:x:4300:")
    assert states("{name: carol, uid: 0}")[:2] == ("failed", "failed")
    assert states("{name: carol, groups: [no-such-group]}")[:2] == ("failed", "failed")
    assert states("{name: root, state: absent}")[:2] == ("failed", "failed")
    assert states("{name: carol, state: absent, remove: true}") == changes
    assert not on("ls", "/srv").split()
    code, refused = ready.states("steps:\n  - user: dave\n", "-l", HOSTS[0], "--check")
    assert refused == {(1, HOSTS[0]): "failed"}


def test_each_item_is_shown_with_its_result_and_the_first_failure_stops_the_host(ready):
    text = """\
steps:
  - sh: test ${item.name} != b && touch ~/loop-${item.name}
    name: try
    notify: tell
    loop: [{name: a}, {name: b}, {name: c}]
handlers:
  tell: [{sh: "echo ${item}", loop: [x, y]}]
"""
    done = ready.run(text, "--json", "-l", HOSTS[0])
    steps = json.loads(done.stdout)["plays"][0]["steps"]
    assert [(s["step"], s["item"], s["state"]) for s in steps] == [
        (1, "name=a", "changed"), (2, "name=b", "failed"), (4, "x", "changed"), (5, "y", "changed"),
    ]  # fmt: skip
    shown = ready.run(text, "-l", HOSTS[0]).stdout
    assert "try (name=a)" in shown and "failed: try (name=b)" in shown
    listed = ready.run(text, "--list-steps").stdout
    assert listed.count("try (name=") == 3
