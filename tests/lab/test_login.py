"""A plain host looks like a machine of its own to plain `ssh -F`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ipexctl.lab import Lab, LabSpec


def ssh(lab: Lab, host: str, command: str) -> subprocess.CompletedProcess[str]:
    argv = ["ssh", "-F", str(lab.ssh_config), host, command]
    return subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_the_hostfile_names_hosts_that_plain_ssh_can_log_in_to(lab3):
    names = lab3.hostfile.read_text().split()
    said = [ssh(lab3, name, "hostname; id -un; pwd").stdout.split() for name in names]
    assert said == [[name, "trainer", "/home/trainer"] for name in ("node01", "node02", "node03")]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("ls -A ~", ""),
        ("ls -A /tmp", ""),
        ("ls -A /dev/shm", ""),
        ("ls /home", "trainer\n"),
        ("cat /etc/resolv.conf", ""),
        ("getent hosts node02 || echo unknown", "unknown\n"),
        ("ls /sys/class/net", "eth0\nlo\n"),
        ("cat /proc/1/comm", "lab-host\n"),
        ("ps -o args= -p 1", "lab-host\n"),
        ("pgrep -f [i]pexctl || echo none", "none\n"),
        ("echo $PATH | cut -d: -f1-3", "/usr/local/bin:/usr/bin:/bin\n"),
        ("touch ~/x /tmp/x /dev/shm/x && rm ~/x /tmp/x /dev/shm/x && echo ok", "ok\n"),
    ],
)
def test_a_plain_host_is_empty_and_knows_no_other(lab3, command, said):
    done = ssh(lab3, "node01", command)
    assert (done.stdout, done.stderr, done.returncode) == (said, "", 0)


def test_there_are_no_keys_between_the_hosts(lab3):
    address = lab3.hosts["node02"].address
    done = ssh(lab3, "node01", f"ssh -o BatchMode=yes -o StrictHostKeyChecking=no {address} true")
    assert (done.returncode, "Permission denied" in done.stderr) == (255, True)


def test_the_own_name_resolves_to_the_own_address(lab3):
    done = ssh(lab3, "node01", "getent hosts node01")
    assert done.stdout.split() == [lab3.hosts["node01"].address, "node01"]


def test_sshd_logs_connections_and_sessions_outside_the_host(lab3):
    log = lab3.hosts["node03"].sshd_log
    before = log.read_text().count("Starting session")
    ssh(lab3, "node03", "true")
    assert log.read_text().count("Starting session") == before + 1


def test_root_on_a_host_cannot_change_this_machine(full_rung, make_lab):
    lab = make_lab(LabSpec.plain(1, name="asroot"))
    command = "id -u; pwd; ls -A; touch /usr/lab-was-here && ls /usr/lab-was-here"
    done = ssh(lab, "root@node01", command)
    assert done.stdout.split() == ["0", "/root", "/usr/lab-was-here"]
    assert not Path("/usr/lab-was-here").exists()


def test_two_labs_stand_side_by_side(make_lab):
    labs = [make_lab(LabSpec.plain(1, name=name)) for name in ("left", "right")]
    assert [ssh(lab, "node01", "hostname").stdout for lab in labs] == ["node01\n"] * 2
    assert len({lab.hosts["node01"].address for lab in labs}) == 2


def test_hosts_reach_each_other_by_address(lab3):
    lab3.run_in("node01", ["true"])
    address = lab3.hosts["node02"].address
    done = ssh(lab3, "node01", f"exec 3<>/dev/tcp/{address}/22 && head -c 7 <&3")
    assert done.stdout == "SSH-2.0"
