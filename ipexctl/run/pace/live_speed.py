"""The speed of a run that this command watches, from the lines as they arrive. No clock here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field

from ipexctl.quick_dataclass import dataclass
from ipexctl.run.output.metric_lines import Formats, LineReader, Point
from ipexctl.run.pace.run_speed import Counted, Speed, measure_speed

ARRIVES = 0.1  # seconds until a host sends a line
GAP = 3.0  # seconds: lines that came together after a longer one have no times
READ = 8  # last lines of a burst that are read: reading a flood would delay it
MOST = 4000  # points of a rank; then every second one goes
_DIGIT = re.compile(r"\d")


@dataclass
class _RankSteps:
    reader: LineReader
    steps: list[Counted] = field(default_factory=list)
    epochs: list[Counted] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    heard: float | None = None  # when lines of it last arrived

    def add(self, point: Point, at: float, within: float) -> None:
        if point.step is not None:
            self.steps.append(Counted(at, point.step, within))
        if point.epoch is not None:
            self.epochs.append(Counted(at, point.epoch, within))
        if point.rate is not None:
            self.rates.append(point.rate)
        for row in (self.steps, self.epochs, self.rates):
            if len(row) > MOST:
                del row[1::2]


@dataclass
class LiveSpeed:
    """Fed with the lines of all ranks. Only the lowest one that prints steps counts."""

    read_formats: Callable[[], Formats]  # only when there is a line with a number: it takes long
    _ranks: dict[int, _RankSteps] = field(default_factory=dict)
    _lead: int | None = None

    def add_lines(self, rank: int, texts: Sequence[str], now: float) -> None:
        if not texts or (self._lead is not None and rank > self._lead):
            return
        known = self._ranks.get(rank)
        if known is None:
            if not any(map(_DIGIT.search, texts)):
                return
            known = self._ranks[rank] = _RankSteps(LineReader(self.read_formats()))
        heard, known.heard = known.heard, now
        points = [point for text in texts[-READ:] if (point := known.reader.point(text))]
        within = ARRIVES if len(points) == 1 or heard is None else max(ARRIVES, now - heard)
        if not points or within > GAP:
            return
        last = points[-1]
        known.add(last, now, within)
        if len(known.steps) + len(known.epochs) + len(known.rates) > 1:
            self._lead = rank

    @property
    def speed(self) -> Speed | None:
        known = self._ranks.get(self._lead) if self._lead is not None else None
        return measure_speed(known.steps, known.epochs, known.rates) if known else None
