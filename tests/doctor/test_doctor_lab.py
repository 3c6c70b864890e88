"""The doctor on real sshd hosts."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ipexctl.common.waiting import wait_until
from ipexctl.lab import Lab, LabSpec
from tests.cli import Ended, ipexctl
from tests.doctor.test_formats import checked
from tests.made import OF_MACHINE

pytestmark = pytest.mark.lab


def doctor(lab: Lab, *argv: str, hosts: tuple[str, ...] = ()) -> Ended:
    named = ["-H", ",".join(hosts)] if hosts else ["-f", str(lab.hostfile)]
    return ipexctl("doctor", *named, "-F", str(lab.ssh_config), *argv)


def told(lab: Lab, *argv: str) -> dict[str, Any]:
    done = doctor(lab, "--json", *argv)
    document = checked(done.stdout)
    assert document["exit_code"] == done.returncode, done.stderr
    return document


def states(document: dict[str, Any]) -> dict[str, str]:
    return {h["name"]: h["state"] for h in document["hosts"]}


def ids(document: dict[str, Any]) -> dict[str, list[str]]:
    """What each host fails or is warned of, beside what this machine's own processor lacks."""
    return {h["name"]: _grave(h["findings"]) for h in document["hosts"]}


def _grave(findings: list[dict[str, Any]]) -> list[str]:
    return [f["id"] for f in findings if f["severity"] != "note" and f["id"] not in OF_MACHINE]


def new_lines(log: Path, before: int, word: str) -> int:
    return sum(word in line for line in log.read_text().splitlines()[before:])


def _agents(lab: Lab, host: str) -> list[str]:
    running = lab.run_in(host, ["ps", "-eo", "args"]).stdout.splitlines()
    return [line for line in running if "version_info" in line]


def test_a_clean_lab_has_nothing_to_complain_about(lab3):
    document = told(lab3)
    assert document["exit_code"] == 0
    assert ids(document) == {"node01": [], "node02": [], "node03": []}
    assert _grave(document["findings"]) == []
    assert {(p["source"], p["target"]): p["ok"] for p in document["peers"]} == {
        (a, b): True for a in lab3.hosts for b in lab3.hosts if a != b
    }


def test_each_host_is_asked_over_one_connection_and_one_session(lab3):
    logs = {name: host.sshd_log for name, host in lab3.hosts.items()}
    before = {name: len(log.read_text().splitlines()) for name, log in logs.items()}
    assert doctor(lab3).returncode == 0
    for name, log in logs.items():
        assert new_lines(log, before[name], "Connection from") == 1
        assert new_lines(log, before[name], "Starting session") == 1


def test_nothing_is_left_on_a_host(lab3):
    def look() -> tuple[list[str], list[str]]:
        files = sorted(str(p) for p in lab3.hosts["node01"].files.rglob("*"))
        shm = lab3.run_in("node01", ["ls", "-A", "/dev/shm", "/tmp"]).stdout.split()
        return files, shm

    before = look()
    assert doctor(lab3).returncode == 0
    assert look() == before
    assert wait_until(lambda: not _agents(lab3, "node01"), 20, 0.2)


def test_the_text_starts_with_the_verdict_and_has_no_colour_without_a_terminal(lab3):
    out = doctor(lab3).stdout
    assert out.startswith("3 of 3 hosts ready")
    assert "node[01-03]" in out
    assert "\x1b" not in out


def test_an_option_in_place_of_a_host_is_refused_before_anything_runs(lab3, tmp_path):
    mark = tmp_path / "mark"
    done = doctor(lab3, hosts=(f"-oProxyCommand=touch {mark}",))
    assert (done.returncode, done.stdout, done.slug) == (2, "", "not-a-host")
    assert not mark.exists()


def test_a_login_without_an_account_is_answered_with_the_user_of_ssh_config(lab3):
    refused = doctor(lab3, hosts=("nobody-here@node01",))
    assert refused.returncode == 4
    first = refused.stdout.splitlines()[1].removeprefix("do this: ")
    program, *words = shlex.split(first)
    assert (program, ipexctl(*words).returncode) == ("ipexctl", 0), refused.stdout


def test_a_host_that_cannot_be_asked_does_not_hide_the_others(lab3):
    lab3.fault("node02", "unplug")
    try:
        document = told(lab3)
    finally:
        lab3.heal("node02")
    assert document["exit_code"] == 4
    assert states(document)["node02"] == "unreachable"
    assert document["hosts"][1]["error"]["slug"] == "no-answer"
    assert ids(document) == {"node01": [], "node02": [], "node03": []}
    assert {(p["source"], p["target"]) for p in document["peers"] if p["ok"]} == {
        ("node01", "node03"),
        ("node03", "node01"),
    }


def drop(lab: Lab, port: str, *matches: str) -> None:
    """The switch drops what it would send to the port and what matches one of these."""
    rules = [
        "qdisc add dev {} root handle 1: htb default 1",
        "class add dev {} parent 1: classid 1:1 htb rate 10gbit",
        "class add dev {} parent 1: classid 1:2 htb rate 10gbit",
        "qdisc add dev {} parent 1:2 pfifo limit 0",
        *(f"filter add dev {{}} parent 1: protocol ip u32 {m} classid 1:2" for m in matches),
    ]
    for rule in rules:
        argv = ["nsenter", "-t", str(lab._switch), "-n", "tc", *rule.format(port).split()]
        subprocess.run(argv, check=True, capture_output=True)


def drop_large(lab: Lab, port: str, *sources: str) -> None:
    """What these hosts send to the port in packets of 1408 bytes and more."""
    for name in sources:  # real packets, as a card cuts them
        one = ["ip", "link", "set", "eth0", "gso_max_segs", "1"]
        assert lab.run_in(name, one).returncode == 0
    addresses = (lab.hosts[name].address for name in sources)
    drop(lab, port, *(f"match u16 0x0580 0xff80 at 2 match ip src {a}" for a in addresses))


def test_a_host_behind_a_smaller_mtu_is_found_by_the_packets_that_get_lost(full_rung, make_lab):
    """All connections open, and each interface says 1500: nothing but a try can tell."""
    lab = make_lab(LabSpec.plain(3, name="mtu"))
    drop_large(lab, "p1n0", "node01", "node03")
    document = told(lab)
    assert ids(document) == {"node01": [], "node02": ["NET-025"], "node03": []}
    assert _grave(document["findings"]) == []
    (found,) = (f for f in document["hosts"][1]["findings"] if f["id"] == "NET-025")
    assert all(value in found["evidence"] for value in ("node[01,03]", "1400", "1500"))
    assert found["fix"] == "sudo ip link set eth0 mtu 1400   # or raise the MTU between the hosts"
    pasted = found["fix"].removeprefix("sudo ")
    assert lab.run_in("node02", ["/bin/sh", "-c", pasted]).returncode == 0
    mended = told(lab)
    assert (mended["exit_code"], [_grave(h["findings"]) for h in mended["hosts"]]) == (0, [[]] * 3)
    assert _grave(mended["findings"]) == []


_ANSWERS = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 53))
print("up", flush=True)
while True:
    data, peer = s.recvfrom(4096)
    s.sendto(data[:2] + b"\\x81\\x83" + data[4:], peer)  # no such name
"""


def test_dead_name_servers_are_found_behind_etc_hosts(full_rung, make_lab):
    """All names that the hosts use are in /etc/hosts, so nothing else would tell."""
    lab = make_lab(LabSpec.plain(3, name="dns"))
    dead, alive, silent = lab.hosts
    for name, server in ((dead, "192.0.2.1"), (alive, "127.0.0.1"), (silent, "10.255.0.53")):
        script = f"echo nameserver {server} > /etc/resolv.conf; ip route add default dev eth0"
        assert lab.run_in(name, ["sh", "-c", script]).returncode == 0
    enter = ["nsenter", "-t", str(lab.hosts[alive].pid), "-n", sys.executable, "-c", _ANSWERS]
    with subprocess.Popen(enter, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout and server.stdout.readline() == b"up\n"
            document = told(lab)
        finally:
            server.terminate()
    assert ids(document) == {dead: ["NET-029"], alive: [], silent: ["NET-029"]}


@pytest.mark.parametrize("made", ["", "/runs"])
def test_a_folder_that_root_made_is_given_to_the_user_by_the_fix(full_rung, lab3, made):
    folder = f"{lab3.hosts['node01'].home}/made-by-root"
    lab3.run_in("node01", ["install", "-d", "-o", "trainer", "-m", "755", folder])
    lab3.run_in("node01", ["install", "-d", "-o", "root", "-m", "755", folder + made])
    try:
        hosts = {h["name"]: h["findings"] for h in told(lab3, "--root", folder)["hosts"]}
        (finding,) = (f for f in hosts["node01"] if f["id"] == "DISK-001")
        sudo, *argv = shlex.split(finding["fix"].splitlines()[0])
        assert (sudo, argv[0]) == ("sudo", "chown")
        assert lab3.run_in("node01", argv).returncode == 0
        assert ids(told(lab3, "--root", folder))["node01"] == []
    finally:
        lab3.run_in("node01", ["rm", "-rf", folder])
