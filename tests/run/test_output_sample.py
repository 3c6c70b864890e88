"""remote/sample.py, as an agent has it: on this machine's own /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "ipexctl" / "remote" / "sample.py"


@pytest.fixture
def sample():
    module: dict = {}
    exec(compile(SOURCE.read_text(), str(SOURCE), "exec"), module)
    return module


def test_a_process_stands_still_when_all_its_threads_are_stopped(sample):
    script = "import threading; threading.Thread(target=input).start(); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        sampler = sample["Sampler"](None)
        sampler.add(7, child.pid)
        assert sampler.stopped() == {}
        child.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + 30
        while "7" not in (told := sampler.stopped()) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert told["7"] >= 0
        child.send_signal(signal.SIGCONT)
        child.kill()
        child.wait()
        assert sampler.stopped() == {}


def test_cpus_and_memory_are_those_that_the_kernel_tells(sample):
    used, total = sample["memory"]()
    assert 0 < used <= total
    assert sample["share"]((10, 100), (20, 120)) == 0.5
    assert sample["share"]((10, 100), (10, 100)) is None
    assert sample["share"](None, (10, 100)) is None
    busy, whole = sample["cpu_times"]()
    assert 0 < busy < whole


def made_groups(sample, folder, lines, files):
    """A /proc/self/cgroup and a /sys/fs/cgroup of a made machine."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "cgroup").write_text(lines)
    source = SOURCE.read_text().replace('"/sys/fs/cgroup', f'"{folder}/sys')
    source = source.replace('"/proc/self/cgroup"', repr(str(folder / "cgroup")))
    exec(compile(source, str(SOURCE), "exec"), sample)


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
    sample, tmp_path, lines, files, limits, kills
):
    made_groups(sample, tmp_path, lines, files)
    assert list(sample["group_memory"]()) == limits
    assert sample["group_kills"]() == kills


def test_a_kill_for_memory_is_told_as_closely_as_it_is_known(sample):
    now = sample["oom_kills"]()
    assert sample["oom_hint"](now, os.getpid()) is None
    assert sample["oom_hint"]((now[0], now[1] - 1), None) == "oom"
    assert sample["oom_hint"]((now[0] - 1, now[1]), None) == "oom-limit"
