"""`ipexctl trust`: what is shown, what is written, and what is never replaced."""

from __future__ import annotations

import resource
import stat

import pytest

from ipexctl.base.host_outcome import HostDown
from ipexctl.errors import HostKeyUnknown, NotHere
from ipexctl.hosts.hosts_text import show_started
from ipexctl.hosts.init import InitOptions, init
from ipexctl.hosts.trust import ShownKey, trust, unknown_keys
from ipexctl.inventory.inventory import Host
from ipexctl.machines.fleet import fan_out
from ipexctl.machines.target import Target
from tests.ssh.conftest import keygen
from tests.ssh.test_connect import say


def target(config, *hosts) -> Target:
    return Target(hosts=hosts, ssh_config=config)


def states(report) -> dict[str, str]:
    return {key.host: key.state for key in report.keys}


def test_accepted_keys_let_us_in_and_are_asked_for_once(sshd, transport, own_state):
    config = sshd.config("a", "b", known="")
    asked: list[list[ShownKey]] = []
    report = trust(target(config, "a,b"), lambda keys: not asked.append(list(keys)))
    assert [[k.host for k in keys] for keys in asked] == [["a", "b"]]
    assert (states(report), report.downs, report.exit_code) == (
        {"a": "accepted", "b": "accepted"},
        (),
        0,
    )
    known = own_state / "ipexctl" / "known_hosts"
    assert known.read_text() == sshd.known_line  # two names, one sshd
    assert stat.S_IMODE(known.stat().st_mode) == 0o600
    assert stat.S_IMODE(known.parent.stat().st_mode) == 0o700
    assert say(transport(config, "a"), "a", "echo hello") == b"hello\n"
    again = trust(target(config, "a", "b"), lambda keys: pytest.fail("nothing is new"))
    assert states(again) == {"a": "known", "b": "known"}
    assert "publickey" not in sshd.log.partition("Starting session")[0].partition("Accepted")[0]


def test_init_writes_hosts_whose_keys_are_not_trusted_yet(sshd, tmp_path, own_state, capsys):
    config = sshd.config("a", "b", known="")
    hosts = Target(hosts=("a", "b", "node7.invalid"), ssh_config=config)
    started = init(hosts, InitOptions(folder=tmp_path), None)
    assert [d.host for d in started.untrusted] == ["a", "b"]
    text = (tmp_path / "hostfile").read_text()
    first, second, left_out = text.splitlines()[:3]
    assert (first, second, left_out.split()[:2]) == ("a", "b", ["#", "node7.invalid"])
    show_started(started)
    out, err = capsys.readouterr()
    assert out.endswith("\nnext: ipexctl trust\n") and " a,b " in out
    assert "node7.invalid" in err
    trust(Target(tmp_path / "hostfile", ssh_config=config), lambda keys: True)
    again = init(hosts, InitOptions(folder=tmp_path, force=True), None)
    assert again.untrusted == ()


def test_keys_that_are_not_accepted_are_not_written(sshd, own_state):
    report = trust(target(sshd.config("a", known=""), "a"), lambda keys: False)
    assert (states(report), report.exit_code) == ({"a": "new"}, 1)
    assert not (own_state / "ipexctl" / "known_hosts").exists()


def test_a_changed_key_is_never_replaced(sshd, tmp_path, own_state):
    keygen(tmp_path / "old")
    old = f"[127.0.0.1]:{sshd.port} {(tmp_path / 'old.pub').read_text()}"
    known = own_state / "ipexctl" / "known_hosts"
    known.parent.mkdir(parents=True)
    known.write_text(old)
    report = trust(target(sshd.config("a", known=""), "a"), lambda keys: pytest.fail("not new"))
    assert (states(report), [d.slug for d in report.downs], report.exit_code) == (
        {"a": "changed"},
        ["host-key-changed"],
        4,
    )
    assert known.read_text() == old


def test_a_host_that_is_down_does_not_hide_the_others(sshd, make_sshd):
    down = make_sshd()
    down.stop()
    config = sshd.folder / "both"
    config.write_text(
        sshd.config("a", known="").read_text() + down.config("b", known="").read_text()
    )
    report = trust(target(config, "a", "b"), lambda keys: True)
    assert (states(report), [d.host for d in report.downs], report.exit_code) == (
        {"a": "accepted"},
        ["b"],
        4,
    )


def test_jump_hosts_are_asked_about_first(way, transport):
    config, inner, outer = way
    (outer.folder / "known_hosts").write_text("")
    (inner.folder / "known_hosts").write_text("")
    asked: list[list[str]] = []
    report = trust(target(config, "n"), lambda keys: not asked.append([k.host for k in keys]))
    assert (asked, states(report)) == ([["login"], ["n"]], {"login": "accepted", "n": "accepted"})
    assert say(transport(config, "n"), "n", "echo hello") == b"hello\n"


def test_one_message_tells_all_unknown_keys_and_the_command(make_sshd, transport):
    one, two = make_sshd(), make_sshd()
    config = one.folder / "both"
    config.write_text(
        one.config("a", known="").read_text() + two.config("node02", known="").read_text()
    )
    hosts = (Host("a"), Host("node02"))
    ssh = transport(config, "a", "node02")
    downs = fan_out(hosts, lambda h: ssh.open(h, "true", 20.0)).values()
    error = unknown_keys([d for d in downs if isinstance(d, HostDown)], target(config, "a,node02"))
    keys = [ssh.host_key(h, 20.0).fingerprint for h in hosts]
    assert isinstance(error, HostKeyUnknown)
    assert error.what == "2 hosts show host keys that are not trusted yet"
    (alone,) = [d for d in downs if isinstance(d, HostDown) and d.host == "a"]
    said = unknown_keys([alone], target(config, "a"))
    assert said and said.what == "a host shows a host key that is not trusted yet"
    assert (error.slug, error.why, error.hint) == (
        "host-key-unknown",
        f"a       ssh-ed25519 {keys[0]}\nnode02  ssh-ed25519 {keys[1]}",
        f"ipexctl trust -H a,node02 -F {config}",
    )


# --- a disk that is full, and a power cut --------------------------------------------------------


def test_a_key_that_does_not_fit_on_the_disk_is_told_and_the_others_stay(sshd, own_state):
    known = own_state / "ipexctl" / "known_hosts"
    known.parent.mkdir(parents=True)
    known.write_text("# mine\n")
    config, limit = sshd.config("a", known=""), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, limit[1]))
    try:
        with pytest.raises(NotHere) as e:
            trust(target(config, "a"), lambda keys: True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (e.value.slug, str(known) in e.value.what) == ("host-key-not-saved", True)
    assert known.read_text().startswith("# mine\n")
    assert states(trust(target(config, "a"), lambda keys: True)) == {"a": "accepted"}
    assert known.read_text().endswith(f"\n{sshd.known_line}")


def test_a_line_that_was_cut_is_no_key_and_trust_writes_it_anew(sshd, transport, own_state):
    known = own_state / "ipexctl" / "known_hosts"
    known.parent.mkdir(parents=True)
    known.write_text(sshd.known_line[:-20])
    report = trust(target(sshd.config("a", known=""), "a"), lambda keys: True)
    assert (states(report), report.exit_code) == ({"a": "accepted"}, 0)
    assert known.read_text() == f"{sshd.known_line[:-20]}\n{sshd.known_line}"
    assert say(transport(sshd.config("a", known=""), "a"), "a", "echo hello") == b"hello\n"
