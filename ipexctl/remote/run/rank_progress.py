"""Find out since when the ranks of a host make no progress: no output, no bytes exchanged, nothing
read from or written to a disk.

CPU use proves nothing: a rank may wait for others in a loop, and one that computes for ten minutes
prints nothing. Whether a quiet rank computes is decided by a look at it (remote/hang).
"""

import json
import threading
import time
from contextlib import contextmanager

from ipexctl.common import run_events
from ipexctl.common.processes import fields_of
from ipexctl.common.tolerant_reads import read_text, size_of
from ipexctl.remote.hub.stall import QUIET
from ipexctl.remote.rank import rank_wrapper
from ipexctl.remote.run_files import journal, run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable, Iterator

    from ipexctl.common.rank_looks import RankLook
    from ipexctl.remote.run.supervisor import Supervisor

    Counts = tuple[float, int, list[int], dict[int, int | None]]

EVERY = 2.5
LEAST_FAR = 512  # bytes per second with hosts of other networks: a logger's heartbeat is less
LEAST_DISK = 4096  # bytes per second to or from a disk
LARGEST = journal.LONGEST // 2  # bytes of a look that the journal keeps
BUSY = 0.1  # CPUs in use from which a rank counts as computing
COMMUNICATION = ("/torch/distributed/", "/mpi4py/", "/torch_ccl/", "/oneccl_bindings_for_pytorch/")


class Progress:
    """Reports `quiet` events to the hub."""

    def __init__(self, supervisor: "Supervisor") -> None:
        self.supervisor = supervisor
        self.lock = threading.Lock()
        self.since = {}  # type: dict[int, float]  # when each rank last made progress
        self.before = {}  # type: dict[int, Counts]  # what was counted then
        self.told = 0.0  # seconds, in the last report
        self.looks = False  # whether a look is being taken, which makes ranks write
        self.looking = threading.Lock()  # two looks at once would disturb each other

    def loop(self, is_over: "Callable[[], bool]") -> None:
        while not is_over():
            time.sleep(EVERY)
            seconds = self.measure()
            if seconds >= QUIET or self.told:
                self.told = seconds if seconds >= QUIET else 0.0
                self.supervisor.report(run_events.Quiet(self.told))

    def measure(self) -> float:
        """Return the seconds without progress of all ranks here; 0 if no rank runs."""
        pids, now = self.supervisor.sampler.rank_pids(), time.monotonic()
        with self.lock:
            self.since = {rank: self.since.get(rank, now) for rank in pids}
            quiet = now - max(self.since.values()) if self.since else 0.0
            # walk through all processes only if the cheap counts show no progress
            trees = process_trees(pids) if quiet > EVERY else {}
            if not self.looks:
                self.count_ranks(pids, trees, now)
            return now - max(self.since.values()) if self.since else 0.0

    def count_ranks(self, pids: "dict[int, int]", trees: "dict[int, set[int]]", now: float) -> None:
        traffic = self.supervisor.traffic.exchanged()
        for rank in pids:
            self.count(rank, traffic.get(rank, [0, 0]), trees.get(rank), now)

    def count(self, rank: int, net: "list[int]", processes: "set[int] | None", now: float) -> None:
        """Note progress of a rank if its output, traffic or disk use has grown meanwhile."""
        size = size_of(run_folders.log_of(self.supervisor.dir, rank))
        files = {pid: file_bytes(pid) for pid in processes or ()}
        old_time, old_size, old_net, old_files = self.before.get(rank, (now, size, net, {}))
        self.before[rank] = (now, size, net, files)
        seconds = max(now - old_time, 0.1)
        if (
            size != old_size
            or net[0] != old_net[0]
            or net[1] - old_net[1] > LEAST_FAR * seconds
            or count_new_bytes(old_files, files) > LEAST_DISK * seconds
        ):
            self.since[rank] = now

    def look(self) -> "tuple[float, list[RankLook], bool]":
        """Return (seconds without progress so far, what the ranks do, whether one of them
        computes). How ranks are looked at: remote/hang/look.py."""
        from ipexctl.remote.hang import look  # only a stalled run needs it

        quiet = self.measure()  # progress until now counts
        site, pids = self.supervisor.programs.site(), self.supervisor.sampler.rank_pids()
        with self.looking, self.paused():
            ranks = look.look_at_ranks(site, pids)
        if len(json.dumps([rank.document() for rank in ranks])) > LARGEST:
            for rank in ranks:
                rank.threads = tuple(thread for thread in rank.threads if thread.main)
                rank.children = rank.children[:2]
        return quiet, ranks, any(is_rank_computing(rank) for rank in ranks)

    @contextmanager
    def paused(self) -> "Iterator[None]":
        """Do not count as progress what a look makes the ranks write and print. What they print and
        send from its end on counts: another look may come at once."""
        with self.lock:
            self.looks = True
        try:
            yield
        finally:
            with self.lock:
                self.looks = False
                self.before = {}
                self.count_ranks(self.supervisor.sampler.rank_pids(), {}, time.monotonic())


def is_rank_computing(rank: "RankLook") -> bool:
    """Return whether a rank computes: not a waiting loop or a library for communication."""
    if rank.state == "T" or (rank.cpu or 0.0) < BUSY or rank.waits_in_loop:
        return False
    innermost = rank.frames[0].path if rank.frames else ""
    return not any(name in innermost for name in COMMUNICATION)


def process_trees(pids: "dict[int, int]") -> "dict[int, set[int]]":
    """Return {rank: its process and all below it}."""
    alive = rank_wrapper.list_processes()
    return {
        rank: rank_wrapper.find_descendant_pids(pid, alive) | {pid} for rank, pid in pids.items()
    }


def file_bytes(pid: int) -> "int | None":
    """Return bytes read from and written to disks; None if unreadable. Counts of all reads and
    writes would include sockets: a rank that waits for the rendezvous polls one."""
    try:
        counts = fields_of(read_text("/proc/%d/io" % pid))
        return int(counts["read_bytes"]) + int(counts["write_bytes"])
    except (ValueError, KeyError):
        return None


def count_new_bytes(
    old_counts: "dict[int, int | None]", new_counts: "dict[int, int | None]"
) -> int:
    """Return the bytes between two looks, of the processes that both have."""
    pairs = ((old_counts.get(pid), count) for pid, count in new_counts.items())
    return sum(count - old for old, count in pairs if old is not None and count is not None)
