"""Summarize what the ranks of this host did, from samples that are taken anyway: in the last minute
and in all, and write a sparse history to a file."""

import collections
import os
import time

from ipexctl.common.processes import find_descendants, process_times, with_ancestors

KEPT = 25  # samples, one each health_sampler.EVERY seconds
SHORTEST = 5.0  # seconds of samples that are needed for a summary
LOOK = 4  # samples between looks at other programs
TOP = 3


class Pace:
    def __init__(self, sampler, traffic, history=None):
        self.sampler = sampler
        self.traffic = traffic
        self.history = history  # journal.History, as long as it can be written
        self.began = time.monotonic()
        self.samples = collections.deque(maxlen=KEPT)  # type: collections.deque
        self.spans = {}  # first and last rows of the whole run, as `extend` writes them
        self.busy = [0.0, 0]  # the sum of the host's shares, and their number
        self.others = Programs()

    def add(self, host_cpu):
        """Add a sample. `host_cpu`: the share of the host's CPUs that was busy, or None."""
        now, sent, pids = time.monotonic(), self.traffic.sent(), self.sampler.rank_pids()
        ranks = {
            rank: (
                now,
                seconds,
                sent.get(rank),
                cpu_wait_seconds(pids[rank]) if rank in pids else None,
            )
            for rank, (_, seconds) in self.sampler.took.items()
        }
        self.samples.append((host_cpu, ranks))
        extend_spans(self.spans, ranks)
        if host_cpu is not None:
            self.busy = [self.busy[0] + host_cpu, self.busy[1] + 1]
        self.others.sample(now)

    def keep(self, sample):
        """Write the sample to the history, after `add`: {at, cpu, used, net, ranks: {rank: [CPUs,
        bytes sent so far, seconds that took]}}."""
        sent = {str(rank): row[2] for rank, row in self.samples[-1][1].items()}
        ranks = {
            rank: [round(cpus, 2)] + [round_number(count) for count in sent.get(rank) or [0, 0.0]]
            for rank, cpus in sample.ranks.items()
        }
        row = {name: round_number(getattr(sample, name)) for name in ("cpu", "used", "net")}
        try:
            if self.history:
                at = round(time.monotonic() - self.began, 1)
                self.history.add(dict(row, at=at, ranks=ranks))
        except OSError:
            self.history = None  # a full disk, say

    def last_minute(self):
        """{cpu, ranks: {rank: [seconds, CPUs, bytes sent per second, share of time, waited]}}

        If a rank sends, this begins with its first bytes. The share is that of the time in which it
        sent; None if the kernel does not count that. `waited`: as `waits`, per second.
        """
        samples, spans = list(self.samples), {}  # type: list, dict
        for _, ranks in samples:
            extend_spans(spans, ranks)
        busy = [cpu for cpu, _ in samples if cpu is not None]
        return {"cpu": sum(busy) / len(busy) if busy else None, "ranks": describe_spans(spans)}

    def whole_run(self):
        """Return the same for the whole run, with {..., cpus, programs: [[name, CPUs], ...]}."""
        cpu = self.busy[0] / self.busy[1] if self.busy[1] else None
        said = {"cpu": cpu, "ranks": describe_spans(self.spans), "cpus": os.cpu_count()}
        return dict(said, programs=self.others.top())


def extend_spans(spans, ranks):
    """Update `spans`: rank -> (its first row, from when it has sent something; its last row)."""
    for rank, row in ranks.items():
        first = spans.get(rank, (row,))[0]
        begins = row[2] and row[2][0] and not (first[2] and first[2][0])
        spans[rank] = (row if begins else first, row)


def describe_spans(spans):
    found = {}
    for rank, (first, last) in sorted(spans.items()):
        seconds = last[0] - first[0]
        if seconds >= SHORTEST:
            moved = (
                traffic_rates(first[2], last[2], seconds) if first[2] and last[2] else [0.0, 0.0]
            )
            known = None not in (first[3], last[3])
            waited = max(0.0, (last[3] - first[3]) / seconds) if known else None
            cpus = (last[1] - first[1]) / seconds
            found[str(rank)] = [seconds, cpus] + moved + [waited]
    return found


def round_number(number):
    """Round to three digits; from 1000 on (bytes), to an integer."""
    if number is None or number >= 1000:
        return None if number is None else int(number)
    return round(number, 3)


def traffic_rates(before, after, seconds):
    known = None not in (before[1], after[1])
    share = max(0.0, min(1.0, (after[1] - before[1]) / seconds)) if known else None
    return [max(0.0, (after[0] - before[0]) / seconds), share]


def cpu_wait_seconds(pid):
    """Return seconds in which threads could run but had no CPU; None: not counted."""
    folder, total = "/proc/%d/task" % pid, 0
    try:
        for task in os.listdir(folder):
            with open(os.path.join(folder, task, "schedstat"), "rb") as f:
                total += int(f.read().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return total / 1e9


class Programs:
    """The CPU time of programs outside this run, by name."""

    def __init__(self):
        self.samples = 0
        self.began = self.ended = 0.0
        self.seen = {}  # pid -> (name, ticks)
        self.ticks = collections.Counter()  # type: collections.Counter

    def sample(self, now):
        self.samples += 1
        if self.samples % LOOK == 1:
            self.look(now, process_times())

    def look(self, now, found):
        """Count a sample. `found`: pid -> (name, parent, ticks)."""
        own = with_ancestors(os.getpid(), found) | find_descendants(os.getpid(), found)
        new = {pid: (name, ticks) for pid, (name, _, ticks) in found.items() if pid not in own}
        for pid, (name, ticks) in new.items():
            if self.began:  # a process that is new since the last look counts in full
                before = self.seen.get(pid, (name, 0))[1]
                self.ticks[name] += max(0, ticks - before)
        self.seen = new
        self.began, self.ended = self.began or now, now

    def top(self):
        ticks = (self.ended - self.began) * os.sysconf("SC_CLK_TCK")
        if ticks <= 0:
            return []
        return [[name, round(used / ticks, 3)] for name, used in self.ticks.most_common(TOP)]
