"""Equal lines of many ranks become one. No rank's own lines change places; nothing waits long."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

WINDOW = 0.25  # seconds that a line waits for its like
MOST = 2000  # lines that wait


@dataclass
class Group:
    """One line, and the ranks that wrote it."""

    text: str
    number: int
    at: float
    ranks: list[int] = field(default_factory=list)


class Fold:
    """Groups leave in the order in which they came. A rank joins only a group behind its last."""

    def __init__(self, ranks: int) -> None:
        self._all = ranks
        self._queue: deque[Group] = deque()
        self._open: dict[str, list[Group]] = {}  # by text, in order
        self._last: dict[int, int] = {}  # rank -> number of the group of its last line
        self._next = 0

    def add(self, rank: int, texts: Sequence[str], now: float) -> None:
        for text in texts:
            group = self._joinable(text, self._last.get(rank, -1)) or self._new(text, now)
            group.ranks.append(rank)
            self._last[rank] = group.number

    def due(self, now: float) -> Iterator[Group]:
        """Groups that have waited long enough, or that no other rank can join."""
        queue = self._queue
        while queue and (
            now - queue[0].at >= WINDOW or len(queue[0].ranks) == self._all or len(queue) > MOST
        ):
            yield self._leave()

    def rest(self) -> Iterator[Group]:
        while self._queue:
            yield self._leave()

    def _joinable(self, text: str, last: int) -> Group | None:
        groups = self._open.get(text, [])
        i = bisect_right(groups, last, key=lambda g: g.number)
        return groups[i] if i < len(groups) else None

    def _new(self, text: str, now: float) -> Group:
        group = Group(text, self._next, now)
        self._next += 1
        self._queue.append(group)
        self._open.setdefault(text, []).append(group)
        return group

    def _leave(self) -> Group:
        group = self._queue.popleft()
        same = self._open[group.text]
        same.pop(0)  # the oldest of its text
        if not same:
            del self._open[group.text]
        return group


def ranges(ranks: Sequence[int]) -> str:
    """0,1,2,5 -> 0-2,5"""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and parts[-1][1] == rank - 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
