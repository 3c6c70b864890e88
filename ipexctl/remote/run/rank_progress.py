"""Since when the ranks of a host make no progress: no output, no bytes exchanged, no file I/O.

CPU use is no sign: a rank may wait for others in a loop, and one that computes for ten minutes says
nothing. Whether a quiet rank computes is decided by a look at it (remote/hang).
"""

import threading
import time
from contextlib import contextmanager

from ipexctl.remote.hub.stall import QUIET
from ipexctl.remote.rank import rank_wrapper
from ipexctl.remote.run_files import journal, run_folders

EVERY = 2.5
LEAST_NETWORK = 512  # bytes per second: a logger's heartbeat is less
LEAST_WRITTEN, LEAST_READ = 256, 4096  # the same, of files: a loop may read a small one again


class Progress:
    """Reports `quiet` events to the hub."""

    def __init__(self, supervisor):
        self.supervisor = supervisor
        self.lock = threading.Lock()
        self.since = {}  # rank -> when it last made progress
        self.before = {}  # rank -> what was counted then: Counts
        self.told = 0.0  # seconds, in the last report
        self.looks = False  # a look is taken, which makes ranks write

    def loop(self, over):
        while not over():
            time.sleep(EVERY)
            seconds = self.look()
            if seconds >= QUIET or self.told:
                self.told = seconds if seconds >= QUIET else 0.0
                self.supervisor.report({"event": "quiet", "seconds": self.told})

    def quiet(self):
        """Seconds without progress of all ranks here; 0 if no rank runs."""
        now = time.monotonic()
        with self.lock:
            return now - max(self.since.values()) if self.since else 0.0

    def look(self):
        pids, moved = self.supervisor.sampler.rank_pids(), self.supervisor.traffic.exchanged()
        now = time.monotonic()
        with self.lock:
            self.since = {rank: self.since.get(rank, now) for rank in pids}
            quiet = now - max(self.since.values()) if self.since else 0.0
            # a walk through all processes only where the cheap counts say nothing
            below = process_trees(pids) if quiet > EVERY else {}
            for rank in () if self.looks else pids:
                self.count(rank, moved.get(rank, 0), below.get(rank), now)
            return now - max(self.since.values()) if self.since else 0.0

    def count(self, rank, moved, processes, now):
        size = journal.size_of(run_folders.log_of(self.supervisor.dir, rank))
        files = {pid: file_bytes(pid) for pid in processes or ()}
        at, old_size, old_moved, old_files = self.before.get(rank, (now, size, moved, {}))
        self.before[rank] = (now, size, moved, files)
        seconds = max(now - at, 0.1)
        read, written = grown(old_files, files)
        if (
            size != old_size
            or moved - old_moved > LEAST_NETWORK * seconds
            or read > LEAST_READ * seconds
            or written > LEAST_WRITTEN * seconds
        ):
            self.since[rank] = now

    @contextmanager
    def paused(self):
        """What a look makes the ranks write and print is no progress."""
        with self.lock:
            self.looks = True
        try:
            yield
        finally:
            with self.lock:
                self.looks = False
                self.before = {}


def process_trees(pids):
    """rank -> its process and all below it."""
    alive = rank_wrapper.processes()
    return {rank: rank_wrapper.descendants(pid, alive) | {pid} for rank, pid in pids.items()}


def file_bytes(pid):
    """(read, written) so far, with what went through pipes; None where that is closed to us."""
    try:
        with open("/proc/%d/io" % pid) as f:
            counts = dict(line.split(":") for line in f)
        return int(counts["rchar"]), int(counts["wchar"])
    except (OSError, ValueError, KeyError):
        return None


def grown(before, now):
    """Bytes read and written between two looks, by the processes that both have."""
    read = written = 0
    for pid, counts in now.items():
        old = before.get(pid)
        if counts is not None and old is not None:
            read += counts[0] - old[0]
            written += counts[1] - old[1]
    return read, written
