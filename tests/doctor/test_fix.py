"""--fix does what it showed, takes it back, and never touches what somebody uses."""

from __future__ import annotations

import mmap
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipexctl.doctor.apply_fixes import apply_fixes
from ipexctl.doctor.apply_fixes import undo as take_back
from ipexctl.doctor.report import fix_plan
from ipexctl.doctor.report.finding import Finding, Severity
from ipexctl.doctor.report.fix_play import as_step, fix_play
from ipexctl.doctor.report.suggested_fix import (
    Fix,
    Part,
    Shell,
    as_fix,
    command,
    do,
    edit,
    scripted,
    sudo,
    write,
)
from ipexctl.facts.system_facts import Limit
from ipexctl.machines.agent import Agent
from ipexctl.machines.target import Target
from tests.checks.hosts import clean, findings, state
from tests.doctor.test_doctor_lab import doctor


@pytest.fixture
def place(tmp_path) -> dict[str, Any]:
    """A root, and a folder that stands for /dev/shm, where everything counts as old."""
    (tmp_path / "root").mkdir(mode=0o700)
    (tmp_path / "shm").mkdir()
    return {"root": str(tmp_path / "root"), "shm": str(tmp_path / "shm"), "old": -1}


def left_behind(place: dict[str, Any], name: str, data: bytes = b"segment") -> Path:
    path = Path(place["shm"]) / name
    path.write_bytes(data)
    path.chmod(0o640)
    return path


def look(agent: Agent, place: dict[str, Any]) -> fix_plan.Plan:
    return fix_plan.plan("here", agent.call("install.host_fixes.plan", place).done)


def apply(agent: Agent, place: dict[str, Any], *keys: str) -> fix_plan.Done:
    return fix_plan.done(
        "here", agent.call("install.host_fixes.apply", {**place, "keys": keys}).done
    )


def undo(agent: Agent, place: dict[str, Any]) -> fix_plan.Done:
    return fix_plan.done("here", agent.call("install.host_fixes.undo", place).done)


def keys(plan: fix_plan.Plan) -> list[str]:
    return [change.key for change in plan.changes]


def test_what_a_dead_training_left_is_removed_and_put_back(agent, place):
    path = left_behind(place, "psm_1a2b3c", b"segment" * 1000)
    before = path.stat()
    plan = look(agent, place)
    assert [c.what.split(" (")[0] for c in plan.changes] == [f"remove {path}"]
    done = apply(agent, place, *keys(plan))
    assert (len(done.done), done.failed, path.exists()) == (1, (), False)
    assert undo(agent, place).done == (f"put back {path}",)
    after = path.stat()
    assert path.read_bytes() == b"segment" * 1000
    assert (after.st_mode, after.st_mtime) == (before.st_mode, before.st_mtime)
    assert undo(agent, place) == fix_plan.Done("here", ())
    assert list((Path(place["root"]) / "fixes").iterdir()) == []


def test_looking_changes_nothing(agent, place):
    left_behind(place, "psm_1a2b3c")
    look(agent, place)
    assert list(Path(place["root"]).iterdir()) == []
    assert [p.name for p in Path(place["shm"]).iterdir()] == ["psm_1a2b3c"]


@pytest.mark.parametrize(
    "name", ["my-data", "psm", "torch_x_y", "something.sem.mp-1", "PostgreSQL.123", ".psm_1"]
)
def test_files_of_unknown_makers_are_left_alone(agent, place, name):
    left_behind(place, name)
    assert look(agent, place).changes == ()


def test_the_name_of_a_living_process_protects_its_file(agent, place):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left_behind(place, f"torch_{os.getpid()}_11_0")
    dead = left_behind(place, f"torch_{gone.pid}_11_0")
    assert [c.what.split(" (")[0] for c in look(agent, place).changes] == [f"remove {dead}"]


def test_what_a_process_has_open_or_mapped_is_left_alone(agent, place):
    opened, mapped = left_behind(place, "psm_open"), left_behind(place, "psm_map")
    with opened.open("rb"), mapped.open("r+b") as f:
        memory = mmap.mmap(f.fileno(), 0)
        f.close()
        assert look(agent, place).changes == ()
        memory.close()
    assert len(look(agent, place).changes) == 2


def test_young_files_links_folders_and_sockets_are_left_alone(agent, place, tmp_path):
    left_behind(place, "psm_young")
    assert look(agent, {**place, "old": 600}).changes == ()
    (Path(place["shm"]) / "psm_young").unlink()
    target = tmp_path / "precious"
    target.write_text("x")
    (Path(place["shm"]) / "psm_link").symlink_to(target)
    os.link(target, Path(place["shm"]) / "psm_hard")
    (Path(place["shm"]) / "psm_folder").mkdir()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(Path(place["shm"]) / "psm_socket"))
        assert look(agent, place).changes == ()


def test_only_what_was_shown_is_done_and_only_while_it_is_the_same(agent, place):
    shown = left_behind(place, "psm_shown")
    plan = look(agent, place)
    later = left_behind(place, "psm_later")
    shown.unlink()
    other = left_behind(place, "psm_shown", b"another one")
    os.utime(other, (1, 1))
    done = apply(agent, place, *keys(plan))
    assert done.done == () and len(done.failed) == 1
    assert later.exists() and other.read_bytes() == b"another one"


def test_a_file_that_came_back_meanwhile_is_not_overwritten_by_undo(agent, place):
    path = left_behind(place, "psm_1", b"old")
    apply(agent, place, *keys(look(agent, place)))
    path.write_bytes(b"new")
    done = undo(agent, place)
    assert (done.done, len(done.failed), path.read_bytes()) == ((), 1, b"new")


def test_a_root_that_others_can_write_to_is_closed_and_opened_again(agent, place):
    root = Path(place["root"])
    root.chmod(0o775)
    plan = look(agent, place)
    assert keys(plan) == ["root-mode"]
    apply(agent, place, *keys(plan))
    assert root.stat().st_mode & 0o777 == 0o755
    undo(agent, place)
    assert root.stat().st_mode & 0o777 == 0o775


def test_every_host_is_mended_and_taken_back_in_its_own_root(tmp_path, monkeypatch):
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text('#!/bin/sh\n[ "$1" = -G ] || { for last; do :; done; exec sh -c "$last"; }\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    roots = [tmp_path / name for name in ("own", "usual")]
    for root in roots:
        root.mkdir()
        root.chmod(0o775)
    hostfile = tmp_path / "hosts"
    hostfile.write_text(f"n1 root={roots[0]}\nn2\n")
    target = Target(hostfile, transport="openssh")

    def only_modes(plans: Sequence[fix_plan.Plan]) -> bool:
        if any(keys(plan) != ["root-mode"] for plan in plans):
            pytest.skip("a training left files in this machine's own /dev/shm")
        return True

    declined = apply_fixes(target, lambda plans: False, str(roots[1]))
    assert (declined.exit_code, declined.done) == (1, ())
    mended = apply_fixes(target, only_modes, str(roots[1]))
    assert [(d.host, Path(d.record).parent.parent) for d in mended.done] == [
        ("n1", roots[0]),
        ("n2", roots[1]),
    ]
    assert [root.stat().st_mode & 0o777 for root in roots] == [0o755, 0o755]
    assert [d.host for d in take_back(target, str(roots[1])).done] == ["n1", "n2"]
    assert [root.stat().st_mode & 0o777 for root in roots] == [0o775, 0o775]


# --- what needs root -----------------------------------------------------------------------------


def finding(said: Fix | Part, host: str = "n1", severity: Severity = Severity.WARN) -> Finding:
    return Finding("X-001", severity, host, "a title", "seen", "why", as_fix(said))


def commands(said: Fix | Part) -> list[str]:
    found = fix_plan.scripts([finding(said)], ["n1"])
    return live(found[0][1]) if found else []


def live(script: str) -> list[str]:
    """The commands that mend something, without what makes them a script."""
    steps = [line.partition(" || failed ") for line in script.splitlines()]
    assert not [line for line, _, of in steps if line.startswith(("sudo ", "echo ")) and not of]
    return [line for line, _, of in steps if of]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (scripted("apt-get install -y python3 python3-venv"), None),
        (do(scripted("timedatectl set-ntp true"), "   (or x)"), "sudo timedatectl set-ntp true"),
        (
            do(write("madvise", "/sys/kernel/mm/x"), "   on all"),
            "echo madvise | sudo tee /sys/kernel/mm/x",
        ),
        (write("trainer - nofile 65536", "/etc/security/limits.d/i.conf"), None),
        (
            do(command("docker run ..."), "   or   ", scripted("mount -o size=50% /dev/shm")),
            "sudo mount -o size=50% /dev/shm",
        ),
        (Shell("sudo mkdir /x && sudo mount /x", needs_root=True, unattended=True), None),
        (scripted("sysctl -w", "net.ipv4.ip_local_port_range=32768 60999"), None),
        (sudo("ip link set NIC mtu 1500"), ""),
        (do(sudo("dmidecode -t memory"), " shows which slots are empty"), ""),
        (do("free memory, then: ", Shell("sudo swapoff -a && sudo x", needs_root=True)), ""),
        (do(scripted("apt-get install a"), " (x)") | do(scripted("dnf install a"), " (y)"), ""),
        (write("10.0.0.1 x'; rm -rf /", "/etc/hosts", append=True), ""),
        (scripted("ip link set", "$(reboot)", "mtu", "1500"), ""),
        (scripted("ip link set", "eth0`reboot`", "mtu", "1500"), ""),
        (scripted("chmod 1777", "/tmp; sudo reboot"), ""),
        (scripted("chmod 1777", "/tmp && sudo reboot"), ""),
        (do(scripted("chmod 1777 /tmp")) | do(sudo("reboot")), "sudo chmod 1777 /tmp"),
        (do(sudo("sysctl vm.nr_hugepages=0"), "   (unless a database needs them)"), ""),
        ("sudo reboot, if you like", ""),
    ],
    ids=str,
)
def test_only_plain_commands_stand_in_the_script(said, expected):
    wanted = str(said) if expected is None else expected
    assert commands(said) == ([wanted] if wanted else [])


@pytest.mark.parametrize("word", ["a" * 31, "a''" * 26, "a " * 50_000])
def test_a_long_word_of_a_host_is_judged_soon(word):
    texts = write(f"{word}!", "/x"), scripted("chmod", f"{word}!")
    began = time.process_time()
    assert [commands(text) for text in texts] == [[], []]
    assert time.process_time() - began < 10


def test_limits_share_a_file_and_none_takes_anothers_line_away():
    few = state("limits", nofile=Limit(256, 4096), nproc=Limit(100, 100))(clean())
    lines = [line for f in findings(few) for line in commands(f.fix)]
    assert lines == [
        "echo 'trainer - nofile 65536' | sudo tee -a /etc/security/limits.d/90-training.conf",
        "echo 'trainer - nproc 65536' | sudo tee -a /etc/security/limits.d/90-training.conf",
    ]


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        ("intel_pstate", ["echo 0 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"]),
        ("intel_cpufreq", ["echo 0 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"]),
        ("acpi-cpufreq", ["echo 1 | sudo tee /sys/devices/system/cpu/cpufreq/boost"]),
        ("amd-pstate-epp", ["echo 1 | sudo tee /sys/devices/system/cpu/cpufreq/boost"]),
        ("", []),
    ],
)
def test_turbo_is_switched_on_where_the_driver_has_its_switch(driver, expected):
    slow = state("power", driver=driver, status="", governors=(), turbo=False)(clean())
    (found,) = findings(slow)
    assert (found.id, commands(found.fix)) == ("PWR-002", expected)


def test_a_step_that_fails_is_told_and_the_others_are_done(tmp_path):
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\nexec "$@"\n')
    sudo.chmod(0o755)
    made, none = tmp_path / "made", tmp_path / "none"
    found = [
        replace(finding(said), id=number)
        for number, said in (
            ("A-001", write("1", f"{none}/x")),
            ("B-001", Shell(f"sudo mkdir -p {none}/a && sudo chmod 700 {none}/b", True, True)),
            ("C-001", scripted("mkdir", str(made))),
        )
    ]
    [(_, script)] = fix_plan.scripts(found, ["n1"])
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LC_ALL": "C"}
    done = subprocess.run(["sh"], input=script, capture_output=True, text=True, env=env)
    told = [line for line in done.stderr.splitlines() if line.endswith(": failed")]
    assert (told, done.returncode) == (["A-001: failed", "B-001: failed"], 1)
    assert made.is_dir()


def test_hosts_that_need_the_same_share_a_script_that_sh_can_read():
    found = [finding(scripted("chmod 1777 /tmp"), h) for h in ("n1", "n2")]
    found.append(finding(scripted("sysctl vm.swappiness=10"), "n3"))
    found.append(finding(scripted("chmod 1777 /tmp"), "n4", Severity.NOTE))
    parts = fix_plan.scripts(found, ["n1", "n2", "n3", "n4"])
    assert [names for names, _ in parts] == [["n1", "n2"], ["n3"]]
    for _, text in parts:
        assert subprocess.run(["sh", "-n"], input=text, text=True).returncode == 0


@pytest.mark.parametrize("host", ["n1", ""])
def test_what_only_root_can_edit_is_in_the_script_and_the_play(host):
    found = [finding(do(edit("/etc/hosts"), "   # 10.0.0.1 n1"), host)]
    [(names, script)] = fix_plan.scripts(found, ["n1"])
    assert (names, live(script)) == (["n1"], [])
    assert "#   sudoedit /etc/hosts # 10.0.0.1 n1" in script.splitlines()
    assert "on n1: X-001 a title: sudoedit /etc/hosts" in fix_play(found, ["n1"])


def test_hosts_that_need_the_same_commands_share_a_script_whatever_is_left_to_the_user():
    found = [finding(scripted("chmod 1777 /tmp"), h) for h in ("n1", "n2", "n3")]
    found += [
        replace(finding(do(edit("/etc/hosts"), f"   # {h}"), h), id="E-001") for h in ("n1", "n2")
    ]
    [(names, script)] = fix_plan.scripts(found, ["n1", "n2", "n3"])
    assert (names, live(script)) == (["n1", "n2", "n3"], ["sudo chmod 1777 /tmp"])
    edits = [line for line in script.splitlines() if "sudoedit" in line]
    assert edits == [f"#   on {h}: sudoedit /etc/hosts # {h}" for h in ("n1", "n2")]


def test_packages_that_are_installed_again_are_no_package_step():
    again = finding(scripted("apt-get install -y --reinstall python3-minimal"))
    new = finding(scripted("apt-get install -y python3-venv"))
    kinds = [as_step(f, c).kind for f in (again, new) for c in fix_plan.ready_commands(f.fix)]
    assert kinds == ["sh", "package"]


def test_words_of_a_host_cannot_leave_the_comment():
    words = do(scripted("x", "\x0b\r\u2028reboot"), "\x0b\r\u2028reboot")
    hostile = Finding("X-001", Severity.WARN, "n1", "t\nreboot", "e", "w", words)
    [(_, text)] = fix_plan.scripts([hostile], ["n1"])
    lines = [x for x in text.splitlines() if x and not x.startswith("#")]
    assert lines == ["bad=", 'failed() { echo "$1: failed" >&2; bad=1; }', 'test -z "$bad"']


# --- as a user -----------------------------------------------------------------------------------


@pytest.mark.lab
def test_on_real_hosts_nothing_is_changed_without_a_yes(lab3):
    folder = f"{lab3.hosts['node01'].home}/.ipexctl"
    make = f"mkdir -p {folder}; chown {lab3.user} {folder}; chmod 775 {folder}"
    lab3.run_in("node01", ["sh", "-c", make])

    def mode() -> str:
        return str(lab3.run_in("node01", ["stat", "-c", "%a", folder]).stdout).strip()

    try:
        asked = doctor(lab3, "--fix")
        assert (asked.returncode, mode()) == (2, "775")
        assert "chmod go-w" in asked.stderr and "-y" in asked.stderr
        done = doctor(lab3, "--fix", "-y")
        assert (done.returncode, mode()) == (0, "755"), done.stderr
        assert f"to undo: ipexctl doctor -f {lab3.hostfile} -F " in done.stdout
        back = doctor(lab3, "--undo")
        assert (back.returncode, mode()) == (0, "775")
        again = doctor(lab3, "--undo")
        assert (again.returncode, again.stdout) == (0, "nothing to undo\n")
    finally:
        lab3.run_in("node01", ["rm", "-rf", folder])
    assert doctor(lab3, "--fix", "-y").stdout == "nothing to fix without root\n"
