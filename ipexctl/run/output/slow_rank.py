"""Find the rank that the others wait for, by how busy the processes of all ranks are.

A rank that waits in a collective of gloo sleeps; one that computes does not. Backends that spin
while they wait (oneCCL, MPI) keep all ranks equally busy: then nothing is reported. The same holds
if the busiest rank sleeps, too: it may wait for another one that waits for a disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TypeVar

from ipexctl.quick_dataclass import dataclass

SMOOTH = 0.25  # weight of the newest sample: about the last 10 s count
LEAST = 4  # samples of each rank
FEW = 0.25  # share of the ranks that may be slow
APART = 1.5  # how many times as busy as the others
COMPUTES = 0.8  # CPUs of a rank that does not wait
OFTEN = 0.5  # share of samples in which a rank has to be slow to be slow in the summary


_Who = TypeVar("_Who", int, str)


@dataclass(frozen=True)
class Slow:
    """Slow ranks. `waits`: the share of their time that the other ranks wait for these."""

    ranks: tuple[int, ...]
    waits: float


@dataclass
class RankLoads:
    """Fed with the samples of all hosts."""

    _busy: dict[int, float] = field(default_factory=dict)
    _seen: dict[int, int] = field(default_factory=dict)
    _found: Counter[tuple[int, ...]] = field(default_factory=Counter)  # (): none
    _waits: Counter[tuple[int, ...]] = field(default_factory=Counter)  # sums, in thousandths

    def add(self, busy: Iterable[tuple[int, float]]) -> None:
        for rank, cpus in busy:
            previous = self._busy.get(rank, cpus)
            self._busy[rank] = previous + SMOOTH * (cpus - previous)
            self._seen[rank] = self._seen.get(rank, 0) + 1
        if self._has_enough_samples():
            slow = self.slow() or Slow((), 0.0)
            if slow.ranks or self._found:  # while all ranks start, they are equally busy
                self._found[slow.ranks] += 1
                self._waits[slow.ranks] += round(1000 * slow.waits)

    def busy(self, ranks: Iterable[int]) -> float | None:
        """Return the CPUs that the ranks use together; None: no rank has a sample."""
        loads = [self._busy[rank] for rank in ranks if rank in self._busy]
        return sum(loads) if loads else None

    def ended(self, rank: int) -> None:
        self._busy.pop(rank, None)

    def _has_enough_samples(self) -> bool:
        return len(self._busy) > 1 and all(self._seen[rank] >= LEAST for rank in self._busy)

    def find_mostly_slow(self) -> Slow | None:
        """Return ranks that were slow most of the time since one was."""
        if not self._found:
            return None
        ranks, count = self._found.most_common(1)[0]
        if not ranks or count < max(LEAST, OFTEN * self._found.total()):
            return None
        return Slow(ranks, self._waits[ranks] / count / 1000)

    def slow(self) -> Slow | None:
        result = find_slow_ranks(self._busy) if self._has_enough_samples() else None
        return Slow(*result) if result else None


def find_slow_ranks(
    busy: Mapping[_Who, float], least: float = COMPUTES
) -> tuple[tuple[_Who, ...], float] | None:
    """Return the few busy ranks or hosts, and the share of time that the others wait."""
    busiest = max(busy.values(), default=0.0)
    if busiest < least:
        return None
    slow = [key for key, cpus in sorted(busy.items()) if cpus * APART > busiest]
    others = [cpus for cpus in busy.values() if cpus * APART <= busiest]
    if not others or len(slow) > max(1, FEW * len(busy)):
        return None
    return tuple(slow), 1 - sorted(others)[len(others) // 2] / busiest
