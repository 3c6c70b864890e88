"""Practice hosts without the rights of root: in user namespaces, and without namespaces."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from ipexctl.common.waiting import wait_until
from ipexctl.lab import HostSpec, Lab, LabSpec
from ipexctl.lab.cluster import machine_support
from ipexctl.lab.cluster.rung_limits import FLAT, USER, fit_spec_to_rung
from tests.cli import ipexctl
from tests.refused import refused

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module", params=[USER, FLAT])
def lab(request, tmp_path_factory):
    if reason := machine_support.why_not(request.param, LabSpec.plain(1)):
        pytest.skip(f"the {request.param} rung cannot start here: {reason}")
    root = tmp_path_factory.mktemp("labs")
    spec = LabSpec.plain(3, name=request.param)
    lab = Lab.up(spec, owner=os.getpid(), root=root, rung=request.param)
    yield lab
    lab.down()


@pytest.fixture(autouse=True)
def healed(lab):
    yield
    for host, (_, faults) in lab.status().items():
        if faults:
            lab.heal(host)


def ssh(lab: Lab, host: str, command: str) -> str:
    argv = ["ssh", "-F", str(lab.ssh_config), "-o", "ConnectTimeout=3", host, command]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.stdout or done.stderr


def test_every_host_has_an_address_and_a_home_of_its_own(lab):
    said = [ssh(lab, name, 'pwd; echo "$SSH_CONNECTION"').split() for name in lab.hosts]
    assert [(words[0], words[3]) for words in said] == [
        (host.home, host.address) for host in lab.hosts.values()
    ]
    assert len({words[3] for words in said}) == 3


def test_what_a_host_writes_at_home_is_seen_from_here_and_by_no_other(lab):
    assert ssh(lab, "node01", "echo mine > x; cat ~/x") == "mine\n"
    assert (lab.hosts["node01"].files / "x").read_text() == "mine\n"
    assert "No such file" in ssh(lab, "node02", "cat ~/x")
    assert lab.run_in("node01", ["cat", f"{lab.hosts['node01'].home}/x"]).stdout == "mine\n"


def test_hosts_reach_each_other_by_address(lab):
    port = 22 if lab.rung == USER else lab.ssh_config.read_text().split("Port ")[1].split()[0]
    address = lab.hosts["node02"].address
    command = f"exec 3<>/dev/tcp/{address}/{port} && head -c 7 <&3"
    assert ssh(lab, "node01", f"bash -c '{command}'") == "SSH-2.0"


def test_a_killed_host_is_gone_with_its_processes_and_heal_starts_it_again(lab):
    ssh(lab, "node01", "touch kept; setsid sleep 3607 >/dev/null 2>&1 &")
    assert wait_until(lambda: sleeping("3607"))
    lab.fault("node01", "kill")
    assert not sleeping("3607")
    assert lab.status()["node01"] == (0, ["kill"])
    assert ssh(lab, "node02", "echo up") == "up\n"
    lab.heal("node01")
    assert ssh(lab, "node01", "ls ~/kept").endswith("kept\n")


def test_a_frozen_host_says_nothing_until_it_is_healed(lab):
    lab.fault("node03", "freeze")
    assert "timed out" in ssh(lab, "node03", "echo up")
    lab.heal("node03")
    assert ssh(lab, "node03", "echo up") == "up\n"


def test_a_connection_to_a_frozen_host_ends_with_ssh_also_under_nohup(lab):
    lab.fault("node03", "freeze")
    config = ["-F", str(lab.ssh_config), "-o", "ConnectTimeout=2"]
    done = subprocess.run(
        ["nohup", "ssh", *config, "node03", "true"], capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip
    assert done.returncode == 255
    assert "timed out" in done.stderr


def test_doctor_looks_at_all_hosts(lab):
    done = ipexctl("doctor", "-f", str(lab.hostfile), "-F", str(lab.ssh_config))
    assert (done.returncode, done.stdout.splitlines()[0][:18]) == (0, "3 of 3 hosts ready"), (
        done.stdout + done.stderr
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_of_a_lab_whose_watchdog_is_killed(lab, number, tmp_path):
    doomed = Lab.up(
        LabSpec.plain(2, name="doomed"), owner=os.getpid(), root=tmp_path, rung=lab.rung
    )
    ssh(doomed, "node01", "setsid sleep 3608 >/dev/null 2>&1 &")
    assert wait_until(lambda: sleeping("3608"))
    os.kill(doomed.watchdog, number)
    assert wait_until(lambda: not sleeping("3608") and not processes(str(doomed.folder)))
    assert not doomed.is_up()


def test_a_lab_that_is_taken_down_leaves_no_file(lab, tmp_path):
    doomed = Lab.up(
        LabSpec.plain(1, name="doomed"), owner=os.getpid(), root=tmp_path, rung=lab.rung
    )
    ssh(doomed, "node01", "setsid sleep 3609 >/dev/null 2>&1 &")
    doomed.down()
    assert (list(tmp_path.iterdir()), sleeping("3609")) == ([], [])


@pytest.mark.parametrize("lab", [USER], indirect=True)
def test_a_host_of_the_user_rung_cannot_change_this_machine(lab):
    command = "touch /usr/lab-was-here /opt/lab-was-here; id -u; cat /etc/hostname"
    assert lab.run_in("node01", ["sh", "-c", command]).stdout == "0\nnode01\n"
    assert not Path("/usr/lab-was-here").exists()
    assert ssh(lab, "node01", "id -un").strip() == "trainer"


@pytest.mark.parametrize("lab", [FLAT], indirect=True)
def test_a_fault_that_the_flat_rung_cannot_make_is_refused(lab):
    with refused("fault-needs-namespaces", "unplug"):
        lab.fault("node01", "unplug")


def test_what_a_rung_leaves_out_is_named():
    hosts = (HostSpec(disk=8 << 20, shm=1), HostSpec(), HostSpec(nics=("ens3",)))
    spec = LabSpec(hosts=hosts, ipv6=True).checked()
    assert fit_spec_to_rung(spec, "full") == fit_spec_to_rung(spec, USER) == (spec, ())
    fitted, left_out = fit_spec_to_rung(spec, FLAT)
    assert left_out == ("node01:shm,disk", "node03:nic", "--ipv6")
    assert fitted == LabSpec.plain(3)


def test_a_rung_that_does_not_exist_is_refused():
    with refused("unknown-value", "best"):
        machine_support.choose_rung(LabSpec.plain(1), "best")


def sleeping(seconds: str) -> list[int]:
    return [pid for pid, line in command_lines() if line == f"sleep {seconds}"]


def processes(word: str) -> list[int]:
    return [pid for pid, line in command_lines() if word in line]


def command_lines() -> list[tuple[int, str]]:
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        found.append((int(entry), line.decode("utf-8", "replace").strip()))
    return found
