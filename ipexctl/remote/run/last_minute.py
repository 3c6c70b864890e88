"""What the ranks of this host did, from samples that are taken anyway: in the last minute, and
sparsely in all of the run, in a file."""

import collections
import time

KEPT = 25  # samples, one each health_sampler.EVERY seconds
SHORTEST = 5.0  # seconds from which something can be said


class Pace:
    def __init__(self, sampler, traffic, history=None):
        self.sampler = sampler
        self.traffic = traffic
        self.history = history  # journal.History, as long as it can be written
        self.began = time.monotonic()
        self.rows = collections.deque(maxlen=KEPT)  # type: collections.deque

    def add(self, host_cpu):
        """After a sample. `host_cpu`: the share of the host's CPUs that was busy, or None."""
        used = {rank: seconds for rank, (_, seconds) in self.sampler.took.items()}
        self.rows.append((time.monotonic(), used, self.traffic.sent(), host_cpu))

    def keep(self, sample):
        """After `add`: {at, cpu, used, net, ranks: {rank: [CPUs, bytes sent until then, seconds
        that took]}}"""
        at, _, sent, _ = self.rows[-1]
        ranks = {
            rank: [round(cpus, 2)] + [shortened(count) for count in sent.get(int(rank), [0, 0.0])]
            for rank, cpus in sample["ranks"].items()
        }
        row = {name: shortened(sample[name]) for name in ("cpu", "used", "net")}
        try:
            if self.history:
                self.history.add(dict(row, at=round(at - self.began, 1), ranks=ranks))
        except OSError:
            self.history = None  # a full disk, say

    def last_minute(self):
        """{cpu, ranks: {rank: [seconds, CPUs, bytes sent per second, share of the time]}}

        From when a rank has sent something, if it does. The last number is the share in which it
        sent; None where the kernel does not count that.
        """
        rows, found = list(self.rows), {}
        for rank in sorted({rank for _, used, _, _ in rows for rank in used}):
            own = [(at, used[rank], sent.get(rank)) for at, used, sent, _ in rows if rank in used]
            own = [row for row in own if row[2] and row[2][0]] or own
            (first, cpu, sent), (last, cpu_after, sent_after) = own[0], own[-1]
            seconds = last - first
            if seconds >= SHORTEST:
                moved = rates(sent, sent_after, seconds) if sent and sent_after else [0.0, 0.0]
                found[str(rank)] = [seconds, (cpu_after - cpu) / seconds] + moved
        busy = [share for _, _, _, share in rows if share is not None]
        return {"cpu": sum(busy) / len(busy) if busy else None, "ranks": found}


def shortened(number):
    """Of bytes no part is kept, of shares and seconds three digits."""
    if number is None or number >= 1000:
        return None if number is None else int(number)
    return round(number, 3)


def rates(before, after, seconds):
    known = None not in (before[1], after[1])
    share = max(0.0, min(1.0, (after[1] - before[1]) / seconds)) if known else None
    return [max(0.0, (after[0] - before[0]) / seconds), share]
