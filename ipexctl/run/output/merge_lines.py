"""Fold lines of many ranks that differ only in numbers. The order of a rank's lines is kept."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import lru_cache

from ipexctl.quick_dataclass import dataclass

WINDOW = 0.25  # seconds that a line waits for those of other ranks
MOST_LINES = 2000  # lines that wait
NEAR = 8  # groups of one template in which a matching line is searched
SLOT = "\0"
_RANK = re.compile(r"\[rank\d+\]:? ")  # torch puts it before each line of a traceback
# Numbers inside words (fp16, node01) are text. A number after `step` or before `/` counts the
# progress: ranks at different steps are not folded. Colours are skipped.
_NUMBER = re.compile(
    r"(\x1b\[[0-9;:]*m"
    r"|(?<![A-Za-z])(?:[Ss]tep|[Ee]p(?:och)?|[Ii]t(?:er(?:ation)?)?|[Bb]atch|[Uu]pdate)s?"
    r"\W{1,4}\d+(?![\d.])"
    r"|(?<![\w.])\d+\s?/\s?\d+)"
    r"|(?<![\w.])(0x[0-9a-fA-F]+|[-+]?\d[\d,]*(?:\.\d+)*\.?(?:[eE][-+]?\d+)?)"
)


@lru_cache(maxsize=512)
def line_template(text: str) -> tuple[str, tuple[str, ...]]:
    """Return (the common part of lines that may be folded into one, the numbers in this line)."""
    if text.startswith("[rank"):
        text = _RANK.sub("", text, count=1)
    pieces = _NUMBER.split(text)  # text, number to keep, number to fold, text...
    if len(pieces) == 1:
        return text, ()
    kept, numbers = pieces[1::3], pieces[2::3]
    rest = ((SLOT if k is None else k) + t for k, t in zip(kept, pieces[3::3], strict=True))
    return pieces[0] + "".join(rest), tuple(n for n in numbers if n is not None)


def merge_line_rows(key: str, rows: Sequence[tuple[str, ...]]) -> str:
    """Merge lines of one template: the common part once, numbers that differ as `low..high`."""
    texts = key.split(SLOT)
    ranges = map(_number_range, zip(*rows, strict=True))
    return texts[0] + "".join(r + text for r, text in zip(ranges, texts[1:], strict=True))


def _number_range(numbers: Sequence[str]) -> str:
    if len(set(numbers)) == 1:
        return numbers[0]
    ordered = sorted(dict.fromkeys(numbers), key=_comparable_value)
    return (
        ordered[0]
        if _comparable_value(ordered[0]) == _comparable_value(ordered[-1])
        else f"{ordered[0]}..{ordered[-1]}"
    )


def _comparable_value(number: str) -> tuple[float, ...]:
    """Return a key to compare numbers: 1,024 and 1e-3 by value, addresses by their parts."""
    if number.startswith("0x"):
        return (float(int(number, 16)),)
    plain = number.replace(",", "").rstrip(".")
    if plain.count(".") > 1:
        return tuple(map(float, plain.split(".")))
    return (float(plain),)


@dataclass(eq=False)
class LineGroup:
    """One line, and the ranks that wrote it."""

    key: str
    number: int
    at: float
    ranks: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    numbers: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def text(self) -> str:
        if len(set(self.texts)) == 1:
            return self.texts[0]
        return merge_line_rows(self.key, self.numbers)


class Fold:
    """Emits groups in the order of their creation. A rank joins only groups after its last one."""

    def __init__(self, ranks: int) -> None:
        self._all = ranks
        self._queue: deque[LineGroup] = deque()
        self._open: dict[str, list[LineGroup]] = {}  # by template, in order
        self._last: dict[int, int] = {}  # rank -> number of the group of its last line
        self._next = 0

    def add(self, rank: int, texts: Sequence[str], now: float) -> None:
        for text in texts:
            key, numbers = line_template(text) if self._all > 1 else (text, ())
            group = self._find_joinable(key, text, self._last.get(rank, -1)) or self._add_group(
                key, now
            )
            group.ranks.append(rank)
            group.texts.append(text)
            group.numbers.append(numbers)
            self._last[rank] = group.number

    def due(self, now: float) -> Iterator[LineGroup]:
        """Yield groups that have waited long enough, or that no other rank can join."""
        queue = self._queue
        while queue and (
            now - queue[0].at >= WINDOW
            or len(queue[0].ranks) == self._all
            or len(queue) > MOST_LINES
        ):
            yield self._take_first()

    def rest(self) -> Iterator[LineGroup]:
        while self._queue:
            yield self._take_first()

    def without(self, rank: int) -> int:
        """Drop the groups in which this rank is not. Return the number of their lines."""
        dropped = [group for group in self._queue if rank not in group.ranks]
        for group in dropped:
            self._queue.remove(group)
            self._close(group)
        return sum(len(group.ranks) for group in dropped)

    def _find_joinable(self, key: str, text: str, last: int) -> LineGroup | None:
        """Return a group that the line can join, preferably one with the same numbers."""
        groups = self._open.get(key, [])
        start = bisect_right(groups, last, key=lambda group: group.number)
        near = groups[start : start + NEAR]
        return next((group for group in near if text in group.texts), near[0] if near else None)

    def _add_group(self, key: str, now: float) -> LineGroup:
        group = LineGroup(key, self._next, now)
        self._next += 1
        self._queue.append(group)
        self._open.setdefault(key, []).append(group)
        return group

    def _take_first(self) -> LineGroup:
        group = self._queue.popleft()
        self._close(group)
        return group

    def _close(self, group: LineGroup) -> None:
        same = self._open[group.key]
        same.remove(group)
        if not same:
            del self._open[group.key]
