"""The fixes of doctor: the script, the play, and the play as it runs on hosts."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace

import pytest

from ipexctl.doctor.report import fix_plan
from ipexctl.doctor.report.finding import (
    Finding,
    Fix,
    Part,
    Severity,
    Shell,
    as_fix,
    command,
    do,
    edit_file,
    scripted_sudo,
    sudo,
    write_line,
)
from ipexctl.doctor.report.fix_plan import fix_play, step_for_command
from ipexctl.doctor_command.fixes import run_fixes
from ipexctl.errors import InputError
from ipexctl.facts.limits_facts import Limit
from ipexctl.machines.target import Target
from ipexctl.play.steps import all_steps
from ipexctl.play.text.interpolation import Scope
from ipexctl.play.text.play_reader import read_play
from ipexctl.play.text.step_schema import bind_step
from tests.checks.hosts import clean, findings, state
from tests.cli import Ended, ipexctl
from tests.doctor.test_report import report

# --- what needs root -----------------------------------------------------------------------------


def finding(said: Fix | Part, host: str = "n1", severity: Severity = Severity.WARN) -> Finding:
    return Finding("X-001", severity, host, "a title", "seen", "why", as_fix(said))


def commands(said: Fix | Part) -> list[str]:
    found = fix_plan.root_scripts([finding(said)], ["n1"])
    return live(found[0][1]) if found else []


def live(script: str) -> list[str]:
    """The commands that mend something, without what makes them a script."""
    steps = [line.partition(" || failed ") for line in script.splitlines()]
    assert not [line for line, _, of in steps if line.startswith(("sudo ", "echo ")) and not of]
    return [line for line, _, of in steps if of]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (scripted_sudo("apt-get install -y python3 python3-venv"), None),
        (
            do(scripted_sudo("timedatectl set-ntp true"), "   (or x)"),
            "sudo timedatectl set-ntp true",
        ),
        (
            do(write_line("madvise", "/sys/kernel/mm/x"), "   on all"),
            "echo madvise | sudo tee /sys/kernel/mm/x",
        ),
        (write_line("trainer - nofile 65536", "/etc/security/limits.d/i.conf"), None),
        (
            do(command("docker run ..."), "   or   ", scripted_sudo("mount -o size=50% /dev/shm")),
            "sudo mount -o size=50% /dev/shm",
        ),
        (Shell("sudo mkdir /x && sudo mount /x", needs_root=True, unattended=True), None),
        (scripted_sudo("sysctl -w", "net.ipv4.ip_local_port_range=32768 60999"), None),
        (sudo("ip link set NIC mtu 1500"), ""),
        (do(sudo("dmidecode -t memory"), " shows which slots are empty"), ""),
        (do("free memory, then: ", Shell("sudo swapoff -a && sudo x", needs_root=True)), ""),
        (
            do(scripted_sudo("apt-get install a"), " (x)")
            | do(scripted_sudo("dnf install a"), " (y)"),
            "",
        ),
        (write_line("10.0.0.1 x'; rm -rf /", "/etc/hosts", append=True), ""),
        (scripted_sudo("ip link set", "$(reboot)", "mtu", "1500"), ""),
        (scripted_sudo("ip link set", "eth0`reboot`", "mtu", "1500"), ""),
        (scripted_sudo("chmod 1777", "/tmp; sudo reboot"), ""),
        (scripted_sudo("chmod 1777", "/tmp && sudo reboot"), ""),
        (do(scripted_sudo("chmod 1777 /tmp")) | do(sudo("reboot")), "sudo chmod 1777 /tmp"),
        (do(sudo("sysctl vm.nr_hugepages=0"), "   (unless a database needs them)"), ""),
        ("sudo reboot, if you like", ""),
        (do("sudo ", write_line("ADDRESS a", "/etc/hosts", scripted=False)), ""),
        (do(command("ls /sudo")), ""),
    ],
    ids=str,
)
def test_only_plain_commands_stand_in_the_script(said, expected):
    wanted = str(said) if expected is None else expected
    assert commands(said) == ([wanted] if wanted else [])


@pytest.mark.parametrize("word", ["a" * 31, "a''" * 26, "a " * 50_000])
def test_a_long_word_of_a_host_is_judged_soon(word):
    texts = write_line(f"{word}!", "/x"), scripted_sudo("chmod", f"{word}!")
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
            ("A-001", write_line("1", f"{none}/x")),
            ("B-001", Shell(f"sudo mkdir -p {none}/a && sudo chmod 700 {none}/b", True, True)),
            ("C-001", scripted_sudo("mkdir", str(made))),
        )
    ]
    [(_, script)] = fix_plan.root_scripts(found, ["n1"])
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LC_ALL": "C"}
    done = subprocess.run(["sh"], input=script, capture_output=True, text=True, env=env)
    told = [line for line in done.stderr.splitlines() if line.endswith(": failed")]
    assert (told, done.returncode) == (["A-001: failed", "B-001: failed"], 1)
    assert made.is_dir()


def test_hosts_that_need_the_same_share_a_script_that_sh_can_read():
    found = [finding(scripted_sudo("chmod 1777 /tmp"), h) for h in ("n1", "n2")]
    found.append(finding(scripted_sudo("sysctl vm.swappiness=10"), "n3"))
    found.append(finding(scripted_sudo("chmod 1777 /tmp"), "n4", Severity.NOTE))
    parts = fix_plan.root_scripts(found, ["n1", "n2", "n3", "n4"])
    assert [names for names, _ in parts] == [["n1", "n2"], ["n3"]]
    for _, text in parts:
        assert subprocess.run(["sh", "-n"], input=text, text=True).returncode == 0


@pytest.mark.parametrize("host", ["n1", ""])
def test_what_only_root_can_edit_is_in_the_script_and_the_play(host):
    found = [finding(do(edit_file("/etc/hosts"), "   # 10.0.0.1 n1"), host)]
    [(names, script)] = fix_plan.root_scripts(found, ["n1"])
    assert (names, live(script)) == (["n1"], [])
    assert "#   sudoedit /etc/hosts # 10.0.0.1 n1" in script.splitlines()
    assert "on n1: X-001 a title: sudoedit /etc/hosts" in fix_play(found, ["n1"])


def test_hosts_that_need_the_same_commands_share_a_script_whatever_is_left_to_the_user():
    found = [finding(scripted_sudo("chmod 1777 /tmp"), h) for h in ("n1", "n2", "n3")]
    found += [
        replace(finding(do(edit_file("/etc/hosts"), f"   # {h}"), h), id="E-001")
        for h in ("n1", "n2")
    ]
    [(names, script)] = fix_plan.root_scripts(found, ["n1", "n2", "n3"])
    assert (names, live(script)) == (["n1", "n2", "n3"], ["sudo chmod 1777 /tmp"])
    edits = [line for line in script.splitlines() if "sudoedit" in line]
    assert edits == [f"#   on {h}: sudoedit /etc/hosts # {h}" for h in ("n1", "n2")]


def test_packages_that_are_installed_again_are_no_package_step():
    again = finding(scripted_sudo("apt-get install -y --reinstall python3-minimal"))
    new = finding(scripted_sudo("apt-get install -y python3-venv"))
    kinds = [step_for_command(c)[0] for f in (again, new) for c in fix_plan.ready_commands(f.fix)]
    assert kinds == ["sh", "package"]


def test_words_of_a_host_cannot_leave_the_comment():
    words = do(scripted_sudo("x", "\x0b\r\u2028reboot"), "\x0b\r\u2028reboot")
    hostile = Finding("X-001", Severity.WARN, "n1", "t\nreboot", "e", "w", words)
    [(_, text)] = fix_plan.root_scripts([hostile], ["n1"])
    lines = [x for x in text.splitlines() if x and not x.startswith("#")]
    assert lines == ["bad=", 'failed() { echo "$1: failed" >&2; bad=1; }', 'test -z "$bad"']


# --- on hosts ------------------------------------------------------------------------------------

_FILES = ("{dead}:0:0", "{living}:0:0", "mine", "{dead}:1:1")


@pytest.mark.lab
def test_fixes_are_shown_as_a_play_which_runs_after_a_yes_alone(lab3, tmp_path):
    """Of segments in /dev/shm, those of a process that lives and of another user stay."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    names = [name.format(dead=ended.pid, living=1) for name in _FILES]
    make = "cd /dev/shm && touch {} && chown trainer {} {} {}".format(" ".join(names), *names[:3])
    lab3.run_in("node01", ["sh", "-c", make])

    def fix(*words: str) -> Ended:
        argv = ("doctor", "-f", str(lab3.hostfile), "-F", str(lab3.ssh_config), "--fix", *words)
        return ipexctl(*argv, cwd=tmp_path)

    def there() -> list[str]:
        found = str(lab3.run_in("node01", ["ls", "/dev/shm"]).stdout).split()
        return [name for name in names if name in found]

    try:
        asked = fix()
        assert (asked.returncode, asked.slug, there()) == (2, "no-terminal", names)
        play = (tmp_path / "doctor-fix.yaml").read_text()
        assert play in asked.stderr and "SOFT-023" in play and 'on: "node01"' in play
        done = fix("-y")
        assert (done.returncode, there()) == (0, names[1:]), done.stderr
        again = fix("-y")
        assert again.stderr.endswith("nothing can be fixed without a question\n")
    finally:
        lab3.run_in("node01", ["sh", "-c", "cd /dev/shm && rm -f " + " ".join(names)])


def test_a_file_that_doctor_did_not_write_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "doctor-fix.yaml").write_text("steps: []\n")
    found = replace(report(clean("node01")), findings=(finding(scripted_sudo("ls"), "node01"),))
    with pytest.raises(InputError) as refused:
        run_fixes(found, Target(), "~/.ipexctl", yes=True, json=False)
    assert refused.value.slug == "fix-file-exists"
    assert (tmp_path / "doctor-fix.yaml").read_text() == "steps: []\n"


def test_a_fix_that_needs_no_root_is_played_without_sudo():
    fix = Shell("rm ~/${x}", unattended=True)
    text = fix_play([finding(fix, "n1", Severity.NOTE), finding(scripted_sudo("ls"), "n2")], ["n1"])
    steps = read_play(text, "fixes", all_steps()).steps
    assert [step.sudo for step in steps] == [False, True]
    assert bind_step(all_steps()["sh"], steps[0].node, Scope({})).cmd == fix.text
