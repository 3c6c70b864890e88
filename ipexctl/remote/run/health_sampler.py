"""Sample a host during a run: its CPUs, its memory, stopped ranks, OOM kills.

If a control group limits memory, its numbers are reported: that limit triggers the OOM killer.
"""

import os
import re
import threading
import time

from ipexctl.common import run_events
from ipexctl.common.processes import fields_of, stat_of
from ipexctl.common.tolerant_reads import read_text, size_of
from ipexctl.remote.hang import process_state
from ipexctl.remote.run_files import run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ipexctl.remote.run.supervisor import Supervisor

    # the keys are texts, as in JSON: the controller reads them as numbers
    ByRank = dict[Any, float]

EVERY = 2.5
OWN_GROUPS, GROUPS = "/proc/self/cgroup", "/sys/fs/cgroup"
STAGE = 80  # characters of what a rank says that it does
UNLIMITED = 1 << 60  # version 1 writes a huge number where version 2 writes "max"


class Sampler:
    """Emit `load` events. A rank counts as stopped if every thread of it is in state T."""

    def __init__(self, call: "Supervisor") -> None:
        self.call = call
        self.lock = threading.Lock()
        self.pids = {}  # type: dict[int, tuple[int, ...]]  # of a rank: its process, its wrapper's
        self.since = {}  # type: dict[int, float]  # when a rank was first seen stopped
        self.busy = cpu_times()
        self.moved = (time.monotonic(), interface_bytes())
        self.printed = set()  # type: set[int]  # ranks that have printed something
        # of a rank: when, CPU seconds of its process so far
        self.took = {}  # type: dict[int, tuple[float, float]]

    def add(self, rank: int, *pids: int) -> None:
        """Sample these processes of a rank. Its wrapper counts: without it, no end is reported."""
        with self.lock:
            self.pids[rank] = pids

    def remove(self, rank: int) -> None:
        with self.lock:
            self.pids.pop(rank, None)

    def rank_pids(self) -> "dict[int, int]":
        with self.lock:
            return {rank: pids[0] for rank, pids in self.pids.items()}

    def loop(self, is_over: "Callable[[], bool]") -> None:
        """Take and record a sample every EVERY seconds; report ranks stopped beyond the lease."""
        while not is_over():
            time.sleep(EVERY)
            sample = self.sample()
            self.call.emit(sample)
            self.call.pace.add(sample.cpu)
            self.call.pace.keep(sample)
            for rank, seconds in sample.stopped.items():
                if seconds >= self.call.lease:
                    self.call.report(run_events.RankFrozen(int(rank), seconds))

    def sample(self) -> "run_events.Sample":
        busy, self.busy = self.busy, cpu_times()
        used, total = read_memory_use()
        return run_events.Sample(
            cpu=cpu_share(busy, self.busy),
            used=used,
            total=total,
            net=self.network(),
            stopped=self.stopped(),
            ranks=self.measure_rank_cpus(),
            doing=self.read_stages(),
        )

    def read_stages(self) -> "dict[Any, str]":
        """Return what each rank says that it does (in_ranks/rank_site.py) until it prints."""
        pids, site = self.rank_pids(), self.call.programs.site()
        self.printed |= {r for r in pids if size_of(run_folders.log_of(self.call.dir, r))}
        return {
            str(rank): read_text(os.path.join(site, "%d.stage" % pid))[:STAGE].strip()
            for rank, pid in pids.items()
            if rank not in self.printed
        }

    def network(self) -> "float | None":
        """Return bytes per second of the busiest interface and direction; None: not known."""
        earlier, latest = self.moved, (time.monotonic(), interface_bytes())
        self.moved = latest
        seconds = latest[0] - earlier[0]
        if seconds <= 0 or not latest[1]:
            return None
        rates = [0.0]
        for name, counts in latest[1].items():
            old_counts = earlier[1].get(name, counts)
            rates += [(counts[i] - old_counts[i]) / seconds for i in (0, 1)]
        return max(rates)

    def measure_rank_cpus(self) -> "ByRank":
        """Return {rank: CPUs that its process kept busy since the last sample}."""
        pids = self.rank_pids()
        before, now = self.took, time.monotonic()
        self.took = {
            rank: (now, process_state.cpu_seconds(pid, False))
            for rank, pid in pids.items()
            if os.path.isdir("/proc/%d" % pid)
        }
        return {
            str(rank): max(0.0, (seconds - before[rank][1]) / (now - before[rank][0]))
            for rank, (_, seconds) in self.took.items()
            if rank in before and now > before[rank][0]
        }

    def stopped(self) -> "ByRank":
        now = time.monotonic()
        with self.lock:
            stopped_ranks = {rank for rank, pids in self.pids.items() if any(map(is_stopped, pids))}
            self.since = {rank: self.since.get(rank, now) for rank in stopped_ranks}
            return {str(rank): now - since for rank, since in self.since.items()}


def is_stopped(pid: int) -> bool:
    """Return whether the process exists, with all its threads stopped."""
    main_state = stat_of("%d/task/%d" % (pid, pid))[1]
    return main_state[:1] == ["T"] and all(t.state == "T" for t in process_state.list_threads(pid))


def cpu_times() -> "tuple[int, int] | None":
    """Return (busy, all) since boot, or None."""
    try:
        line = read_text("/proc/stat", until=b"\n").partition("\n")[0]
        fields = [int(word) for word in line.split()[1:9]]
        return sum(fields) - fields[3] - fields[4], sum(fields)
    except (ValueError, IndexError):
        return None


def interface_bytes() -> "dict[str, tuple[int, int]]":
    """Return {interface: (received, sent)}, without loopback."""
    interfaces = {}
    try:
        for name, counts in fields_of(read_text("/proc/net/dev")).items():
            words = counts.split()
            if name != "lo":
                interfaces[name] = (int(words[0]), int(words[8]))
    except (ValueError, IndexError):
        pass
    return interfaces


def cpu_share(before: "tuple[int, int] | None", after: "tuple[int, int] | None") -> "float | None":
    if not before or not after or after[1] <= before[1]:
        return None
    return min(1.0, max(0.0, (after[0] - before[0]) / (after[1] - before[1])))


def read_memory_use() -> "tuple[int | None, int | None]":
    """Return (bytes used, bytes in all); None for what cannot be read."""
    used = total = None
    try:
        info = fields_of(read_text("/proc/meminfo"))
        total = int(info["MemTotal"].split()[0]) << 10
        used = total - (int(info["MemAvailable"].split()[0]) << 10)
    except (ValueError, KeyError):
        pass
    for limit, usage in group_memory():
        if total is None or limit < total:
            used, total = usage, limit
    return used, total


def group_memory() -> "Iterator[tuple[int, int]]":
    """Return (limit, used) of this control group and its ancestors, of both versions."""
    for version, folder in list_memory_cgroups():
        names = ("memory.max", "memory.current")
        if version == 1:
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        limit, usage = (read_number(os.path.join(folder, name)) for name in names)
        if limit is not None and usage is not None and limit < UNLIMITED:
            yield limit, usage


def list_memory_cgroups() -> "Iterator[tuple[int, str]]":
    """Yield (version, folder) of the control groups that count this process's memory, own first."""
    for words in (line.split(":", 2) for line in read_text(OWN_GROUPS).splitlines()):
        if len(words) == 3 and (words[1] == "" or "memory" in words[1].split(",")):
            version = 1 if words[1] else 2
            mount = GROUPS + "/memory" if words[1] else GROUPS
            path = words[2] if os.path.isdir(mount + words[2]) else "/"  # in a namespace of its own
            while True:
                yield version, mount + path.rstrip("/")
                if path == "/" or not path:
                    break
                path = os.path.dirname(path)


def read_number(path: str) -> "int | None":
    try:
        return int(read_text(path))
    except ValueError:
        return None


# --- killed for lack of memory -------------------------------------------------------------------


def oom_kills() -> "tuple[int, int]":
    """Return the kills so far (by the limit of this control group, on the whole host)."""
    names = {1: "memory.oom_control", 2: "memory.events"}
    files = [os.path.join(folder, names[version]) for version, folder in list_memory_cgroups()]
    return sum(map(count_oom_kills, files)), count_oom_kills("/proc/vmstat")


def count_oom_kills(path: str) -> int:
    try:
        lines = read_text(path).splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    except (ValueError, IndexError):
        return 0


def oom_hint(before: "tuple[int, int]", pid: "int | None") -> "str | None":
    """Return the hint for a rank that was killed for lack of memory, or None."""
    group, host = oom_kills()
    if pid is not None and killed_by_kernel(pid):
        return "oom-rank"
    if group > before[0]:
        return "oom-limit"
    return "oom" if host > before[1] else None


def killed_by_kernel(pid: int) -> bool:
    """Return whether the kernel's log, if readable, names the process."""
    pattern = re.compile(rb"Killed process %d \(" % pid)
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        for _ in range(100000):
            try:
                if pattern.search(os.read(log, 8192)):
                    return True
            except BrokenPipeError:
                continue  # overwritten during the read
            except OSError:
                return False
        return False
    finally:
        os.close(log)
