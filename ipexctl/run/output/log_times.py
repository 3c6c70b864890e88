"""When the bytes of a rank's log were written: from its size at certain times."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import field

from ipexctl.quick_dataclass import dataclass

LONGEST = 3.0  # seconds between two looks at a growing log; it did not grow in a longer gap

Span = tuple[float, float]  # not before, not after; by the clock of the rank's host


@dataclass
class LogTimes:
    """`samples`: (time, size), both ascending. The log is read from `position` on."""

    samples: Sequence[tuple[float, int]]
    position: int = 0
    _sizes: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._sizes = [size for _, size in self.samples]

    def pieces(self, data: bytes) -> Iterator[tuple[bytes, Span | None]]:
        """The next bytes of the log, cut where a sample was taken."""
        done = 0
        while done < len(data):
            index = bisect_right(self._sizes, self.position)
            end = len(data)
            if index < len(self._sizes):
                end = min(end, done + self._sizes[index] - self.position)
            piece = data[done:end]
            yield piece, self._span(index, self.position, self.position + len(piece))
            self.position += len(piece)
            done = end

    def _span(self, index: int, first: int, last: int) -> Span | None:
        if index == len(self._sizes):  # written after the last sample
            return None
        after, size = self.samples[index]
        if index == 0:
            return after, after
        before, start = self.samples[index - 1]
        before = max(before, after - LONGEST)
        part = (after - before) / (size - start)
        return before + part * (first - start), before + part * (last - start)
