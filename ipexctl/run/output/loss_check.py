"""Find out whether the loss of a rank has become nan or infinite, and since which step.

One such value may be the mean of no values, or a step that a gradient scaler skips: only the last
values count, and a single one only at a numbered step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from math import isfinite

from ipexctl.quick_dataclass import dataclass
from ipexctl.run.output.metric_lines import Formats, LineReader, Point

IN_A_ROW = 3  # steps after which it is reported in an active run
_ODD = re.compile(r"(?<![a-z])(?:nan|inf)(?![a-z])")


@dataclass(frozen=True)
class BadLoss:
    value: float
    since: str = ""  # step 12
    steps: int = 1

    def __str__(self) -> str:
        when = "since" if self.steps > 1 else "at"
        return f"{self.value}".lstrip("-") + (f" {when} {self.since}" if self.since else "")


def bad_loss(points: Iterable[Point]) -> BadLoss | None:
    """Check the points of one rank, in order. None: the last loss is a number."""
    streak: BadLoss | None = None
    when = ""
    for point in points:
        if point.loss is None:
            continue
        previous, when = when, _epoch_text(point)
        if isfinite(point.loss):
            streak = None
        elif streak is None:
            streak = BadLoss(point.loss, when)
        elif not when or when != previous:
            streak = BadLoss(point.loss, streak.since, streak.steps + 1)
    return streak if streak and (streak.since or streak.steps > 1) else None


def _epoch_text(point: Point) -> str:
    if point.step is not None:
        return f"step {point.step:,}"
    return "" if point.epoch is None else f"epoch {point.epoch:g}"


def _is_odd(text: str) -> bool:
    """Search for a word before using the pattern, which is slower: all output passes here."""
    return ("nan" in text or "inf" in text) and _ODD.search(text) is not None


@dataclass
class LossWatch:
    """Fed with the lines of all ranks. Parses only those of ranks that have printed nan or inf."""

    formats: Callable[[], Formats]
    said: bool = False
    _ranks: dict[int, tuple[LineReader, list[Point]]] = field(default_factory=dict)

    def lines(self, rank: int, texts: Sequence[str]) -> BadLoss | None:
        """Return the first loss that stays bad, once."""
        if self.said or (rank not in self._ranks and not _is_odd("\n".join(texts).lower())):
            return None
        reader, points = self._ranks.setdefault(rank, (LineReader(self.formats()), []))
        for point in filter(None, map(reader.point, texts)):
            if point.loss is not None and isfinite(point.loss):
                points.clear()
            else:
                points.append(point)
        streak = bad_loss(points)
        self.said = streak is not None and streak.steps >= IN_A_ROW
        if not points:
            del self._ranks[rank]
        return streak if self.said else None

    def end(self, rank: int) -> BadLoss | None:
        """Check a rank that prints nothing more."""
        _, points = self._ranks.pop(rank, (None, []))
        streak = None if self.said else bad_loss(points)
        self.said = self.said or streak is not None
        return streak
