"""Whatever is killed with kill -9, and however a lab ends, the machine is as it was."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ipexctl.common.waiting import wait_until
from ipexctl.lab import HostSpec, Lab, LabSpec
from ipexctl.lab.cluster.practice_cluster import list_lab_names
from tests.refused import refused
from tests.simulated_cpu import cpu

SPEC = LabSpec(name="doomed", hosts=(HostSpec(disk=8 << 20, covers=cpu("amx")), HostSpec()))


def left(lab: Lab, ended: float = math.inf) -> dict[str, list[str]]:
    """All that a lab could leave: links, processes, mounts, loop devices. `ended` is when its end
    began, in seconds since boot: what is younger is of a lab that got a namespace's number again,
    which may be while the first one's other hosts still end."""
    links = os.listdir("/sys/class/net")
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    loops = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout
    return {
        "links": [link for link in links if link == lab.link],
        "processes": [
            pid for pid in filter(str.isdigit, os.listdir("/proc")) if of_lab(pid, lab, ended)
        ],
        "mounts": [line for line in mounts if str(lab.folder) in line],
        "loops": [line for line in loops.splitlines() if str(lab.folder) in line],
    }


NOTHING = {"links": [], "processes": [], "mounts": [], "loops": []}


def of_lab(pid: str, lab: Lab, ended: float) -> bool:
    """Whether a process is one of the lab's, by its command line or its network namespace."""
    try:
        if str(lab.folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            return True
        began = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        shares = os.readlink(f"/proc/{pid}/ns/net") in SPACES.get(lab.folder, ())
        return shares and began < ended * os.sysconf("SC_CLK_TCK")
    except OSError:
        return False


SPACES: dict[Path, set[str]] = {}


def remember_spaces(lab: Lab) -> None:
    """Note every network namespace of the lab, so that what lives in it can be found later."""
    pids = [pid for pid, _ in lab.status().values()] + [lab._switch]
    SPACES[lab.folder] = {os.readlink(f"/proc/{pid}/ns/net") for pid in pids}


@pytest.fixture
def doomed(full_rung, make_lab):
    lab = make_lab(SPEC)
    remember_spaces(lab)
    busy = ["ssh", "-F", str(lab.ssh_config), "node01", "setsid sleep 9999 >/dev/null 2>&1 &"]
    subprocess.run(busy, check=True)
    assert [bool(found) for found in left(lab).values()] == [True, True, False, True]
    return lab


def end(lab: Lab, by: Callable[[], object]) -> None:
    """End the lab and wait until nothing of it is left."""
    ended = time.clock_gettime(time.CLOCK_BOOTTIME)
    by()
    wait_until(lambda: left(lab, ended) == NOTHING, 30)
    assert left(lab, ended) == NOTHING


def test_down_leaves_nothing(doomed):
    end(doomed, doomed.down)
    assert not doomed.folder.exists()


def test_a_killed_watchdog_leaves_nothing_but_files_that_the_next_look_removes(doomed):
    end(doomed, lambda: os.kill(doomed.watchdog, signal.SIGKILL))
    assert list_lab_names(doomed.folder.parent).count("doomed") == 0
    assert not doomed.folder.exists()


def test_a_killed_switch_ends_the_lab(doomed):
    end(doomed, lambda: os.kill(doomed._switch, signal.SIGKILL))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_watchdog_that_is_told_to_end_ends_the_lab(doomed, number):
    end(doomed, lambda: os.kill(doomed.watchdog, number))


def test_a_killed_first_process_takes_its_host_along_and_heal_starts_it_again(doomed):
    pid = doomed.hosts["node01"].pid
    space = os.readlink(f"/proc/{pid}/ns/net")
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not doomed.status()["node01"][0])
    assert doomed.status()["node01"] == (0, ["kill"])
    assert left(doomed)["loops"] == []
    assert space not in {space_of(pid) for pid in filter(str.isdigit, os.listdir("/proc"))}
    doomed.heal("node01")
    assert subprocess.run(["ssh", "-F", str(doomed.ssh_config), "node01", "true"]).returncode == 0
    end(doomed, doomed.down)


def space_of(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def test_a_killed_sshd_leaves_the_host_up(doomed):
    inside = ["sh", "-c", "kill -9 $(cat /run/sshd.pid)"]
    assert doomed.run_in("node01", inside).returncode == 0
    assert doomed.run_in("node01", ["hostname"]).stdout == "node01\n"
    end(doomed, doomed.down)


@pytest.mark.parametrize("kind", ["freeze", "unplug", "kill", "no-sshd", "fill-disk"])
def test_a_faulty_lab_ends_as_cleanly(doomed, kind):
    doomed.fault("node01", kind)
    end(doomed, doomed.down)


def test_a_lab_ends_with_its_owner_even_by_kill_9(full_rung, lab_root):
    script = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from ipexctl.lab import Lab, LabSpec\n"
        "lab = Lab.up(LabSpec.plain(2, name='owned'), owner=os.getpid(), root=Path(sys.argv[1]))\n"
        "print('up', flush=True)\n"
        "time.sleep(600)\n"
    )
    argv = [sys.executable, "-c", script, str(lab_root.folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout.readline() == "up\n"
        lab = Lab.open("owned", root=lab_root.folder)
        remember_spaces(lab)
        end(lab, owner.kill)
    assert wait_until(lambda: not lab.folder.exists())


def test_a_name_is_taken_once_and_free_again_after_a_crash(full_rung, make_lab):
    lab = make_lab(LabSpec.plain(1, name="twice"))
    with refused("lab-already-up", "twice"):
        make_lab(LabSpec.plain(1, name="twice"))
    end(lab, lambda: os.kill(lab.watchdog, signal.SIGKILL))
    with refused("lab-not-up", "twice"):
        Lab.open("twice", root=lab.folder.parent)
    again = make_lab(LabSpec.plain(1, name="twice"))
    assert again.run_in("node01", ["hostname"]).stdout == "node01\n"


def test_the_labs_folder_is_closed_to_others(lab3):
    assert oct(lab3.folder.stat().st_mode & 0o777) == "0o700"
    assert json.loads((lab3.folder / "state.json").read_text())["name"] == "lab3"
