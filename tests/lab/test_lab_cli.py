"""`ipexctl lab` from the shell, and machines that cannot hold one."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ipexctl.errors import NotHere
from ipexctl.facts.system_facts import PRACTICE
from ipexctl.lab import HostSpec, LabSpec
from ipexctl.lab.cluster import machine_support
from ipexctl.lab.cluster.machine_support import choose_rung
from tests.cli import ipexctl
from tests.refused import refused

REPO = Path(__file__).parents[2]


@pytest.fixture
def lab_cli(lab_root, tmp_path):
    """Run `ipexctl lab WORDS` with a state folder of its own; ends all labs after the test.

    `up` is a process, which its lab outlives, and `shell` becomes another program.
    """

    def run(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": str(REPO)}
        if words[0] not in ("up", "shell"):
            return ipexctl("lab", *words, env=env)
        argv = [sys.executable, "-m", "ipexctl", "lab", *words]
        return subprocess.run(argv, input=given, capture_output=True, text=True, env=env)

    yield run
    assert run("down", "--all").returncode == 0


def test_a_lab_lives_from_up_to_down(lab_cli):
    owner = ("--owner", str(os.getpid()))
    assert lab_cli("up", "-n", "2", "--host", "node02:nic=ens3", *owner).returncode == 0
    assert lab_cli("fault", "node02", "kill").stdout == "node02: kill\n"
    (state,) = json.loads(lab_cli("status", "--json").stdout)["labs"]
    assert [(h["name"], h["up"], h["faults"]) for h in state["hosts"]] == [
        ("node01", True, []),
        ("node02", False, ["kill"]),
    ]
    assert lab_cli("heal", "node02").stdout == "node02: healed\n"
    assert lab_cli("shell", "node02", given="id -un; hostname").stdout == "trainer\nnode02\n"
    assert lab_cli("shell", "--root", "node02", given="id -un").stdout == "root\n"
    words = ("node02", "--", "printf", "%s\n", "two words", "$HOME")
    for root in ((), ("--root",)):
        assert lab_cli("shell", *root, *words).stdout == "two words\n$HOME\n"
    assert lab_cli("shell", "node02", "--", "sh", "-c", "exit 3").returncode == 3
    down = lab_cli("down")
    assert (down.returncode, "'lab'" in down.stdout) == (0, True)
    assert json.loads(lab_cli("status", "--json").stdout)["labs"] == []


@pytest.mark.parametrize("more", [(), ("--flat",)])
def test_what_lab_up_says_next_makes_a_project_that_needs_neither_f_nor_F(  # noqa: N802
    lab_cli, tmp_path, more
):
    up = lab_cli("up", "-n", "2", "--owner", str(os.getpid()), *more)
    (state,) = json.loads(lab_cli("status", "--json").stdout)["labs"]
    init = next(line for line in up.stdout.splitlines() if line.startswith("  ipexctl init -F "))
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "own"), "PYTHONPATH": str(REPO)}

    done = ipexctl(*shlex.split(init)[1:], cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    found = json.loads(ipexctl("doctor", "--json", cwd=tmp_path, env=env).stdout)["hosts"]
    wanted = state["addresses"] or [host["name"] for host in state["hosts"]]
    assert [(h["name"], h["error"]) for h in found] == [(name, None) for name in wanted]


def test_a_lab_runs_no_module_of_the_current_folder(make_lab, tmp_path, monkeypatch):
    ran = tmp_path / "ran"
    for name in ("dataclasses", "ipexctl", "json"):
        (tmp_path / f"{name}.py").write_text(f"open({str(ran)!r}, 'w').close()\nimport sys\n")
    monkeypatch.chdir(tmp_path)
    assert machine_support._refusal.__wrapped__("import dataclasses, ipexctl, json") == ""
    make_lab(LabSpec.plain(1, name="modules"))
    assert not ran.exists()


def test_the_lab_that_is_up_is_named_where_another_is_asked_for(lab_cli):
    assert lab_cli("up", "-n", "1", "--name", "mine", "--owner", str(os.getpid())).returncode == 0
    for words in (
        "status --name min",
        "down",
        "heal node01",
        "fault node01 kill",
        "shell a --root",
    ):
        done = lab_cli(*words.split())
        meant = f"ipexctl lab {words.removesuffix(' --name min')} --name mine   # up: mine"
        assert (done.returncode, f"try: {meant}\n" in done.stderr) == (2, True), done.stderr
    done = lab_cli("shell", "a", "--", "echo", "a b")
    assert "try: ipexctl lab shell a --name mine -- echo 'a b'   # up: mine\n" in done.stderr
    done = lab_cli("up", "-n", "1", "--name", "mine", "--json")
    (error,) = json.loads(done.stdout)["errors"]
    assert error["slug"] == "lab-already-up"
    assert error["hint"].startswith("ipexctl lab status --name mine ")
    assert lab_cli("up", "-n", "1", "--name", "lab2", "--owner", str(os.getpid())).returncode == 0
    assert "try: # ipexctl lab down --name NAME   # up: lab2, mine\n" in lab_cli("down").stderr
    assert "try: ipexctl lab down --name mine " in lab_cli("down", "--name", "mime").stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("down",), 2, "lab 'lab' is not up"),
        (("fault", "node01", "kill"), 2, "lab 'lab' is not up"),
        (("up", "--host", "node07:nic=ens3"), 2, "no host 'node07' in this lab"),
        (("up", "--flat", "--host", "node01:nic=ens3"), 2, "a flat lab has no shapes"),
        (("up", "--owner", "99999999"), 2, "--owner 99999999: there is no such process"),
        (("up", "--owner", "-5"), 2, "--owner -5: there is no such process"),
        (("up", "--owner", "0"), 2, "--owner 0: there is no such process"),
    ],
)
def test_mistakes_are_explained_without_a_traceback(lab_cli, words, code, message):
    done = lab_cli(*words)
    assert (done.returncode, message in done.stderr, "Traceback" in done.stderr) == (
        code,
        True,
        False,
    )


@pytest.mark.parametrize(
    "words", [("status",), ("down",), ("shell", "h"), ("fault", "h", "kill"), ("heal", "h")]
)
@pytest.mark.parametrize("name", ["{victim}", "../../../victim", "..", ".", "a/../../../../victim"])
def test_what_is_no_name_of_a_lab_is_refused_and_nothing_removed(lab_cli, tmp_path, words, name):
    (tmp_path / "ipexctl" / "labs" / "a").mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "spec.json").write_text("theirs")
    done = lab_cli(*words, "--name", name.format(victim=victim))
    assert (done.returncode, "lab name" in done.stderr) == (2, True)
    assert (victim / "spec.json").read_text() == "theirs"


@pytest.mark.parametrize("words", [("down", "--name", "mine"), ("down", "--all"), ("status",)])
def test_only_what_a_lab_has_made_is_taken_for_a_dead_lab(lab_cli, tmp_path, words):
    labs = tmp_path / "ipexctl" / "labs"
    (labs / "mine").mkdir(parents=True)
    (labs / "mine" / "thesis").write_text("theirs")
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "spec.json").write_text("{}")
    (labs / "link").symlink_to(tmp_path / "victim")
    (labs / "dead" / "hosts").mkdir(parents=True)
    (labs / "dead" / "spec.json").write_text("{}")
    (labs / "dead" / "hosts" / "out").symlink_to(tmp_path / "victim")
    lab_cli(*words)
    lab_cli("status", "--name", "link")
    lab_cli("status", "--name", "dead")
    assert (labs / "mine" / "thesis").read_text() == "theirs"
    assert (tmp_path / "victim" / "spec.json").exists()
    assert not (labs / "dead").exists()


def test_a_lab_is_not_made_where_something_else_lies(lab_cli, tmp_path):
    theirs = tmp_path / "ipexctl" / "labs" / "mine"
    theirs.mkdir(parents=True)
    (theirs / "thesis").write_text("theirs")
    done = lab_cli("up", "--name", "mine", "--owner", str(os.getpid()), "--json")
    assert json.loads(done.stdout)["errors"][0]["slug"] == "lab-folder-taken"
    assert (theirs / "thesis").read_text() == "theirs"


@pytest.mark.parametrize(
    ("spec", "machine", "what", "hint"),
    [
        (LabSpec.plain(1), {"platform": "darwin"}, "a lab needs Linux", "Linux"),
        (
            LabSpec(hosts=(HostSpec(disk=1 << 24),)),
            {"path": "/nowhere"},
            "a lab needs sshd, ssh, ssh-keygen",
            "apt-get install -y openssh-client openssh-server",
        ),
    ],
)
def test_a_machine_that_cannot_hold_a_lab_gets_one_sentence(spec, machine, what, hint):
    with pytest.raises(NotHere) as caught:
        choose_rung(spec, **machine)
    assert caught.value.what == what
    assert hint in caught.value.hint


WHY_NOT = """
import os, sys
from ipexctl.lab import LabSpec
from ipexctl.lab.cluster import machine_support, rung_limits
if sys.argv[1:]: os.setuid(int(sys.argv[1]))
print(machine_support.why_not(rung_limits.FULL, LabSpec.plain(1)))
"""


def test_without_root_the_full_rung_is_refused():
    number = [] if os.geteuid() else ["65534"]
    argv = [sys.executable, "-c", WHY_NOT, *number]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=REPO)
    assert done.stdout == "it needs root\n", done.stderr


def test_a_practice_host_says_what_it_is(namespaces, lab3):
    """What doctor says of a container, or of a processor, it does not say of this one."""
    done = lab3.run_in("node01", ["cat", "/run/systemd/container"])
    assert done.stdout == PRACTICE


def test_in_a_container_the_full_rung_is_refused(full_rung):
    argv = ["setpriv", "--bounding-set=-sys_admin", sys.executable, "-c", WHY_NOT]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=REPO)
    lacks = "this root lacks CAP_SYS_ADMIN or CAP_NET_ADMIN, as in a container\n"
    assert done.stdout == lacks, done.stderr


def test_missing_tools_leave_the_lower_rungs(tmp_path):
    for tool in ("sshd", "ssh", "ssh-keygen"):
        (tmp_path / tool).symlink_to("/bin/true")
    assert choose_rung(LabSpec.plain(1), path=str(tmp_path)) == "flat"
    with refused("rung-unavailable", "user") as caught:
        choose_rung(LabSpec.plain(1), "user", path=str(tmp_path))
    assert "apt-get install -y iproute2 mount util-linux" in caught.value.why


def test_a_flat_lab_has_many_addresses_on_one_host(make_lab):
    lab = make_lab(LabSpec(name="flat", flat=300))
    assert lab.targets == tuple(lab.hostfile.read_text().split())
    assert (len(lab.targets), len(lab.known_hosts.read_text().splitlines())) == (300, 1)
    for target in (lab.targets[0], lab.targets[-1]):
        argv = ["ssh", "-F", str(lab.ssh_config), target, "echo $SSH_CONNECTION"]
        said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        assert said.split()[2:] == [target, "22"]
