"""Every fault is what it says, and heal undoes it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time

import pytest

from ipexctl.common.waiting import wait_until
from ipexctl.errors import InputError
from ipexctl.lab import HostSpec, Lab, LabSpec
from tests.cli import ipexctl
from tests.practice_hosts import start_lab
from tests.refused import refused

SPEC = LabSpec(name="faults", hosts=(HostSpec(disk=16 << 20), HostSpec()))


@pytest.fixture(scope="module")
def lab(lab_root):
    lab = start_lab(SPEC, lab_root)
    yield lab
    lab.down()


@pytest.fixture(autouse=True)
def healed(lab):
    yield
    for host in lab.hosts:
        lab.heal(host)


def ssh(lab: Lab, host: str, command: str = "echo in") -> str:
    """What the host said, or the reason why ssh could not get in."""
    argv = ["ssh", "-F", str(lab.ssh_config), "-o", "ConnectTimeout=2", host, command]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    for reason in ("Connection refused", "IDENTIFICATION HAS CHANGED", "timed out", "No route"):
        if reason in done.stderr:
            return reason
    return done.stdout.strip()


def held(lab: Lab, host: str) -> socket.socket:
    """An open connection to the host's sshd."""
    peer = socket.create_connection((lab.hosts[host].address, 22), 10)
    assert peer.recv(7) == b"SSH-2.0"
    return peer


def tcp_state(peer: socket.socket) -> int:
    """1 is ESTABLISHED."""
    return peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]


@pytest.mark.parametrize(
    ("kind", "reasons"),
    [
        ("kill", {"timed out", "No route"}),
        ("freeze", {"timed out"}),
        ("unplug", {"timed out", "No route"}),
        ("changed-key", {"IDENTIFICATION HAS CHANGED"}),
        ("no-sshd", {"Connection refused"}),
    ],
)
def test_a_fault_keeps_ssh_out_and_heal_lets_it_in_again(lab, kind, reasons):
    lab.fault("node01", kind)
    assert ssh(lab, "node01") in reasons
    assert ssh(lab, "node02") == "in"
    assert lab.status()["node01"][1] == [kind]
    lab.heal("node01")
    assert ssh(lab, "node01") == "in"
    assert lab.status()["node01"][1] == []


@pytest.mark.parametrize("kind", ["kill", "unplug", "freeze"])
def test_a_peer_hears_nothing_from_a_host_that_is_gone(full_rung, lab, kind):
    with held(lab, "node01") as peer:
        pid = lab.hosts["node01"].pid
        lab.fault("node01", kind)
        assert os.path.exists(f"/proc/{pid}") == (kind != "kill")
        time.sleep(0.5)
        assert tcp_state(peer) == 1


def test_freeze_stops_every_process_and_heal_lets_them_go_on(lab):
    script = "while :; do echo x >> ~/beats; sleep 0.02; done"
    subprocess.run(
        ["ssh", "-F", str(lab.ssh_config), "node02", f"setsid sh -c '{script}' >/dev/null 2>&1 &"],
        check=True,
    )
    beats = lab.hosts["node02"].files / "beats"
    assert wait_until(lambda: beats.exists() and beats.stat().st_size > 4)
    lab.fault("node02", "freeze")
    frozen = beats.stat().st_size
    time.sleep(0.3)
    assert beats.stat().st_size == frozen
    lab.heal("node02")
    assert wait_until(lambda: beats.stat().st_size > frozen)


def test_a_killed_host_comes_back_with_its_home_but_without_its_processes(lab):
    ssh(lab, "node01", "echo kept > ~/kept; setsid sleep 999 >/dev/null 2>&1 & echo y > /tmp/y")
    lab.fault("node01", "kill")
    lab.heal("node01")
    assert ssh(lab, "node01", "cat ~/kept; ls -A /tmp; pgrep sleep") == "kept"


def test_a_full_disk_has_no_room_for_one_block_and_is_emptied_again(lab):
    lab.fault("node01", "fill-disk")
    assert ssh(lab, "node01", "head -c 5000 /dev/zero > ~/x; echo $?; rm ~/x") == "1"
    lab.heal("node01")
    assert ssh(lab, "node01", "head -c 5000 /dev/zero > ~/x; echo $?; rm ~/x") == "0"


def test_this_machines_own_disk_is_never_filled(lab):
    with refused("lab-host-without-disk", "node02"):
        lab.fault("node02", "fill-disk")


def test_no_sshd_leaves_open_sessions_alone(lab):
    argv = ["ssh", "-F", str(lab.ssh_config), "node01", "echo ready; cat"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as open_:
        assert open_.stdout.readline() == "ready\n"
        lab.fault("node01", "no-sshd")
        assert open_.communicate("still here\n", timeout=20)[0] == "still here\n"


def test_faults_add_up_and_one_heal_undoes_all(lab):
    for kind in ("changed-key", "unplug", "no-sshd", "freeze"):
        lab.fault("node01", kind)
    lab.heal("node01")
    assert ssh(lab, "node01") == "in"


def test_a_host_without_power_has_no_answer_and_routes_are_not_its_trouble(lab):
    if lab.rung == "flat":
        pytest.skip("the rung flat: a port of this machine refuses the connection")
    lab.fault("node01", "kill")
    words = ("-f", str(lab.hostfile), "-F", str(lab.ssh_config), "-l", "node01", "--json")
    (host,) = json.loads(ipexctl("doctor", *words).stdout)["hosts"]
    address = lab.hosts["node01"].address
    if lab.rung == "user":
        assert host["error"]["slug"] == "no-ssh-banner"
        return
    assert host["error"]["slug"] == "no-answer"
    assert host["error"]["hint"] == f"ping -c 3 {address}"


@pytest.mark.parametrize(
    ("host", "kind", "message", "hint"),
    [
        ("node09", "kill", "no host 'node09'", ""),
        ("node01", "melt", "unknown fault 'melt'", "# ipexctl lab fault node01 KIND"),
        ("node01", "frezee", "unknown fault 'frezee'", "ipexctl lab fault node01 freeze"),
    ],
)
def test_unknown_hosts_and_faults_are_refused(lab, host, kind, message, hint):
    with pytest.raises(InputError, match=message) as e:
        lab.fault(host, kind)
    kinds = "kinds: kill, freeze, unplug, changed-key, fill-disk, no-sshd"
    assert hint or (e.value.meant, e.value.hint[:19]) == (("", ""), "ipexctl lab status ")
    assert not hint or e.value.hint == f"{hint} --name {lab.name}   # {kinds}"


def test_a_host_that_is_down_takes_no_other_fault(lab):
    lab.fault("node01", "kill")
    with refused("lab-host-down", "node01") as e:
        lab.fault("node01", "freeze")
    assert e.value.hint.startswith(f"ipexctl lab heal node01 --name {lab.name} ")
