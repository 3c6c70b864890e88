"""Measure how busy other users and programs keep the host: load averages, pressure, processes.

ipexctl's own processes hardly affect an average of a minute, and the second look leaves them out.
"""

import os
import time

from ipexctl.common.processes import process_times, with_ancestors

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable
    from typing import Any


BUSY = 0.5  # share of CPUs in the last minute's average from which a second look is worth it
LOOK = 0.2  # least seconds between the two looks
TOP = 3


def begin_load_sample(
    read: "Callable[[str], str]", fs: str, sampled: "bool | None"
) -> "dict[str, Any]":
    """Take the first look. Most hosts are idle, and need no second one. `sampled`: whether the
    processes that compute are wanted."""
    numbers = [_parse_decimal(word) for word in read(fs + "/proc/loadavg").split()[:3]]
    average = [n for n in numbers if n is not None]
    busy = sampled and average and not fs and average[0] >= max(1.0, BUSY * (os.cpu_count() or 1))
    return {"average": average, "look": _read_ticks(read) if busy else None}


def finish_load_sample(
    read: "Callable[[str], str]", fs: str, sample: "dict[str, Any]"
) -> "dict[str, Any]":
    """Take the second look if one is needed; return load averages, pressure and busy programs."""
    blocked = [n for n in read(fs + "/proc/stat").splitlines() if n.startswith("procs_blocked ")]
    load = {
        "average": sample["average"],
        "blocked": int(blocked[0].split()[1]) if blocked else None,
        "cpu_pressure": _pressure(read(fs + "/proc/pressure/cpu"), "some"),
        "memory_pressure": _pressure(read(fs + "/proc/pressure/memory"), "full"),
        "busy": None,
        "top": [],
    }
    earlier = sample["look"]
    if earlier:
        time.sleep(max(0.0, earlier["time"] + LOOK - time.time()))
        load["busy"], load["top"] = _busy_between(earlier, _read_ticks(read))
    return load


def _read_ticks(read: "Callable[[str], str]") -> "dict[str, Any]":
    """Return the ticks that the machine, this command and each program have used so far."""
    processes = process_times()
    own = with_ancestors(os.getpid(), processes)  # this process, and the sshd and shells above it
    own_ticks = sum(processes.pop(pid)[2] for pid in own)
    words = read("/proc/stat").partition("\n")[0].split()[1:]
    numbers = [int(word) for word in words[:7] if word.isdigit()]
    idle = sum(numbers[3:5])  # idle, and waiting for a disk
    return {
        "time": time.time(),
        "busy": sum(numbers) - idle - own_ticks,
        "all": sum(numbers),
        "programs": processes,
    }


def _busy_between(
    before: "dict[str, Any]", after: "dict[str, Any]"
) -> "tuple[float | None, list[list[Any]]]":
    """Return (CPUs that other programs kept busy, [[program, CPUs]] of the busiest ones)."""
    cpus = os.cpu_count() or 1
    ticks = float(after["all"] - before["all"]) / cpus
    if ticks <= 0:
        return None, []
    sums = {}  # type: dict[str, int]
    for pid, (name, _, later) in after["programs"].items():
        earlier = before["programs"].get(pid, (name, 0, later))
        if earlier[0] == name:
            sums[name] = sums.get(name, 0) + max(0, later - earlier[2])
    busiest = sorted(sums, key=lambda name: -sums[name])[:TOP]
    top = [[name, round(sums[name] / ticks, 1)] for name in busiest if sums[name] >= ticks / 10]
    busy = min(float(cpus), max(0.0, (after["busy"] - before["busy"]) / ticks))
    return round(busy, 1), top


def _pressure(text: str, kind: str) -> "float | None":
    """Return the per cent of the last 10 s that programs waited; None if the kernel has no PSI."""
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == kind and words[1].startswith("avg10="):
            return _parse_decimal(words[1][6:])
    return None


def _parse_decimal(text: str) -> "float | None":
    try:
        return float(text)
    except ValueError:
        return None
