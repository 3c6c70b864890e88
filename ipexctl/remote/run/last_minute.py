"""Summarize what the ranks of this host did, from samples that are taken anyway: in the last minute
and in all, and write a sparse history to a file."""

import collections
import os
import time

from ipexctl.common.processes import find_descendants, process_times, with_ancestors
from ipexctl.common.rank_paces import HostSample, RankPace, RankPaces
from ipexctl.remote.hang import process_state

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.common.run_events import Sample
    from ipexctl.remote.run.health_sampler import Sampler
    from ipexctl.remote.run.traffic import TrafficReader
    from ipexctl.remote.run_files.journal import History

    Sent = list[Any]  # bytes, and the seconds that took or None
    # when, CPU seconds, Sent, seconds without a CPU or None, seconds of each idle wait
    Row = tuple[float, float, Sent | None, Any, list[float]]
    Sampled = tuple[float | None, dict[int, Row]]
    Spans = dict[int, tuple[Row, Row]]

KEPT = 25  # samples, one each health_sampler.EVERY seconds
SHORTEST = 5.0  # seconds of samples that are needed for a summary
LOOK = 4  # samples between looks at other programs
TOP = 3


class Pace:
    def __init__(
        self, sampler: "Sampler", traffic: "TrafficReader", history: "History | None" = None
    ) -> None:
        self.sampler = sampler
        self.traffic = traffic
        self.history = history  # journal.History, as long as it can be written
        self.began = time.monotonic()
        # the share of the host's CPUs that was busy, and a row of each rank
        self.samples = collections.deque(maxlen=KEPT)  # type: collections.deque[Sampled]
        # of a rank: seconds so far in which its main thread waited, as in IDLE_WAITS
        self.idle = {}  # type: dict[int, list[float]]
        self.spans = {}  # type: Spans  # of the whole run
        self.busy = [0.0, 0]  # the sum of the host's shares, and their number
        self.others = Programs()

    def add(self, host_cpu: "float | None") -> None:
        """Add a sample. `host_cpu`: the share of the host's CPUs that was busy, or None."""
        now, sent_bytes, pids = time.monotonic(), self.traffic.sent(), self.sampler.rank_pids()
        ranks = {
            rank: (
                now,
                seconds,
                sent_bytes.get(rank),
                cpu_wait_seconds(pids[rank]) if rank in pids else None,
                self.add_idle(rank, pids.get(rank), now),
            )
            for rank, (_, seconds) in self.sampler.took.items()
        }
        self.samples.append((host_cpu, ranks))
        extend_spans(self.spans, ranks)
        if host_cpu is not None:
            self.busy = [self.busy[0] + host_cpu, self.busy[1] + 1]
        self.others.sample(now)

    def add_idle(self, rank: int, pid: "int | None", now: float) -> "list[float]":
        """Return the seconds in which the rank's main thread slept, waited for a disk, and for a
        process: what it does at a sample counts for the time since the last one."""
        last = self.samples[-1][1].get(rank) if self.samples else None
        seconds = self.idle.setdefault(rank, [0.0] * len(process_state.IDLE_WAITS))
        kind = process_state.idle_wait(pid) if pid is not None and last else ""
        for index, (name, _) in enumerate(process_state.IDLE_WAITS):
            seconds[index] += now - last[0] if last and kind == name else 0.0
        return list(seconds)

    def keep(self, sample: "Sample") -> None:
        """Write the sample to the history, after `add`."""
        rows = {str(rank): row for rank, row in self.samples[-1][1].items()}
        unknown = (0.0, 0.0, None, None, [])  # type: Row
        ranks = {}
        for rank, cpus in sample.ranks.items():
            _, _, sent, waited, idle = rows.get(str(rank), unknown)
            sent_bytes, sending = sent or [0, 0.0]
            seconds = tuple(round_number(count) for count in [sending, waited] + idle)
            ranks[rank] = round(cpus, 2), round_number(sent_bytes) or 0, seconds
        row = {name: round_number(getattr(sample, name)) for name in ("cpu", "used", "net")}
        try:
            if self.history:
                at = round(time.monotonic() - self.began, 1)
                self.history.add(HostSample(at, ranks=ranks, **row).document())
        except OSError:
            self.history = None  # a full disk, say

    def last_minute(self) -> RankPaces:
        """Return the last minute's. If a rank sends, this begins with its first bytes."""
        samples, spans = list(self.samples), {}  # type: list[Sampled], Spans
        for _, ranks in samples:
            extend_spans(spans, ranks)
        busy = [cpu for cpu, _ in samples if cpu is not None]
        return RankPaces(sum(busy) / len(busy) if busy else None, describe_spans(spans))

    def whole_run(self) -> RankPaces:
        """Return the same for the entire run, and what other programs did."""
        cpu = self.busy[0] / self.busy[1] if self.busy[1] else None
        return RankPaces(cpu, describe_spans(self.spans), self.others.top())


def extend_spans(spans: "Spans", ranks: "dict[int, Row]") -> None:
    """Update `spans`: rank -> (its first row, from when it has sent something; its last row)."""
    for rank, row in ranks.items():
        first_row = spans.get(rank, (row,))[0]
        starts_sending = row[2] and row[2][0] and not (first_row[2] and first_row[2][0])
        spans[rank] = (row if starts_sending else first_row, row)


def describe_spans(spans: "Spans") -> "list[RankPace]":
    rates = []
    for rank, (start, end) in sorted(spans.items()):
        seconds = end[0] - start[0]
        if seconds >= SHORTEST:
            traffic = (
                traffic_rates(start[2], end[2], seconds) if start[2] and end[2] else [0.0, 0.0]
            )
            is_counted = None not in (start[3], end[3])
            waited = max(0.0, (end[3] - start[3]) / seconds) if is_counted else None
            cpus = max(
                0.0, (end[1] - start[1]) / seconds
            )  # the count of an ended child may be lost
            idle = [(seen - start[4][i]) / seconds for i, seen in enumerate(end[4])]
            rates.append(RankPace(rank, seconds, cpus, *(traffic + [waited] + idle)))
    return rates


def round_number(number: "float | None") -> "float | None":
    """Round to three digits; from 1000 on (bytes), to an integer."""
    if number is None or number >= 1000:
        return None if number is None else int(number)
    return round(number, 3)


def traffic_rates(before: "Sent", after: "Sent", seconds: float) -> "list[Any]":
    is_counted = None not in (before[1], after[1])
    share = max(0.0, min(1.0, (after[1] - before[1]) / seconds)) if is_counted else None
    return [max(0.0, (after[0] - before[0]) / seconds), share]


def cpu_wait_seconds(pid: int) -> "float | None":
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

    def __init__(self) -> None:
        self.guardian = os.getppid()  # what it started is of this run, too
        self.ours = set()  # type: set[int]
        self.samples = 0
        self.began = self.ended = 0.0
        self.seen = {}  # type: dict[int, tuple[str, int]]  # pid -> (name, ticks)
        self.ticks = collections.Counter()  # type: collections.Counter[str]

    def sample(self, now: float) -> None:
        self.samples += 1
        if self.samples % LOOK == 1:
            self.look(now, process_times())

    def look(self, now: float, table: "dict[int, tuple[str, int, int]]") -> None:
        """Add other programs' CPU time. `table`: pid -> (name, parent, ticks)."""
        ours = with_ancestors(os.getpid(), table) | find_descendants(os.getpid(), table)
        ours |= find_descendants(self.guardian, table)
        self.ours = ours | (self.ours & set(table))  # also after the guardian was killed
        others = {
            pid: (name, ticks) for pid, (name, _, ticks) in table.items() if pid not in self.ours
        }
        for pid, (name, ticks) in others.items():
            if self.began:  # a process that is new since the last look counts in full
                old_ticks = self.seen.get(pid, (name, 0))[1]
                self.ticks[name] += max(0, ticks - old_ticks)
        self.seen = others
        self.began, self.ended = self.began or now, now

    def top(self) -> "list[tuple[str, float]]":
        total = (self.ended - self.began) * os.sysconf("SC_CLK_TCK")
        if total <= 0:
            return []
        return [(name, round(ticks / total, 3)) for name, ticks in self.ticks.most_common(TOP)]
