"""remote/run/health_sampler.py, as an agent has it: on this machine's own /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ipexctl.common.waiting import wait_until
from ipexctl.remote.run import health_sampler


def test_a_process_stands_still_when_all_its_threads_are_stopped():
    script = "import threading; threading.Thread(target=input).start(); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        sampler = health_sampler.Sampler(None)
        sampler.add(7, child.pid)
        assert sampler.stopped() == {}
        child.send_signal(signal.SIGSTOP)
        assert wait_until(lambda: "7" in sampler.stopped())
        assert sampler.stopped()["7"] >= 0
        child.send_signal(signal.SIGCONT)
        child.kill()
        child.wait()
        assert sampler.stopped() == {}


def test_a_rank_whose_wrapper_is_stopped_stands_still_too():
    sleep = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(sleep, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as wrapper:
        wrapper.stdout.readline()
        sampler = health_sampler.Sampler(None)
        sampler.add(7, os.getpid(), wrapper.pid)
        assert sampler.stopped() == {}
        wrapper.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, wrapper.pid, os.WSTOPPED)
        assert list(sampler.stopped()) == ["7"]
        wrapper.kill()


def test_cpus_and_memory_are_those_that_the_kernel_tells():
    used, total = health_sampler.read_memory_use()
    assert 0 < used <= total
    assert health_sampler.cpu_share((10, 100), (20, 120)) == 0.5
    assert health_sampler.cpu_share((10, 100), (10, 100)) is None
    assert health_sampler.cpu_share(None, (10, 100)) is None
    busy, whole = health_sampler.cpu_times()
    assert 0 < busy < whole


def test_the_network_is_that_of_the_busiest_interface(monkeypatch):
    before, after = {"eth0": (1000, 0), "ib0": (0, 0)}, {"eth0": (3000, 9000), "ib0": (500, 0)}
    counts = iter([before, after, {}])
    monkeypatch.setattr(health_sampler, "interface_bytes", lambda: next(counts))
    times = iter([10.0, 12.0, 14.0])
    monkeypatch.setattr(health_sampler.time, "monotonic", lambda: next(times))
    sampler = health_sampler.Sampler(None)
    assert sampler.network() == 4500.0
    assert sampler.network() is None


def test_interfaces_are_those_of_the_kernel_without_loopback():
    names = {path.name for path in Path("/sys/class/net").iterdir()} - {"lo"}
    assert set(health_sampler.interface_bytes()) <= names
    assert all(len(counts) == 2 for counts in health_sampler.interface_bytes().values())


def made_groups(monkeypatch, folder, lines, files):
    """A /proc/self/cgroup and a /sys/fs/cgroup of a made machine."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "cgroup").write_text(lines)
    monkeypatch.setattr(health_sampler, "GROUPS", f"{folder}/sys")
    monkeypatch.setattr(health_sampler, "OWN_GROUPS", str(folder / "cgroup"))


@pytest.mark.parametrize(
    ("lines", "files", "limits", "kills"),
    [
        (
            "0::/job/rank\n",
            {
                "sys/job/rank/memory.max": "max\n",
                "sys/job/memory.max": "1000\n",
                "sys/job/memory.current": "600\n",
                "sys/job/memory.events": "low 0\noom 3\noom_kill 2\n",
            },
            [(1000, 600)],
            2,
        ),
        (
            "3:cpu:/x\n9:memory:/docker/a\n0::/\n",
            {
                "sys/memory/docker/a/memory.limit_in_bytes": "5000\n",
                "sys/memory/docker/a/memory.usage_in_bytes": "70\n",
                "sys/memory/docker/a/memory.oom_control": "under_oom 0\noom_kill 1\n",
                "sys/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/memory/memory.usage_in_bytes": "99\n",
            },
            [(5000, 70)],
            1,
        ),
        ("0::/elsewhere\n", {"sys/memory.max": "50\n", "sys/memory.current": "7\n"}, [(50, 7)], 0),
        ("", {}, [], 0),
    ],
)
def test_limits_and_kills_of_both_versions_of_control_groups(
    monkeypatch, tmp_path, lines, files, limits, kills
):
    made_groups(monkeypatch, tmp_path, lines, files)
    assert list(health_sampler.group_memory()) == limits
    assert health_sampler.oom_kills()[0] == kills


def test_a_kill_for_memory_is_told_as_closely_as_it_is_known():
    now = health_sampler.oom_kills()
    assert health_sampler.oom_hint(now, os.getpid()) is None
    assert health_sampler.oom_hint((now[0], now[1] - 1), None) == "oom"
    assert health_sampler.oom_hint((now[0] - 1, now[1]), None) == "oom-limit"
