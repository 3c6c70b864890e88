"""The losses and the rate of one rank, from what it prints."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import field

from ipexctl.quick_dataclass import dataclass
from ipexctl.run.output.metric_lines import Formats, LineReader, Point
from ipexctl.run.output.training_state import Progress, Training


@dataclass
class LossCurve:
    """Lines and questions may come from two threads."""

    formats: Formats
    losses: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._training = Training(self.formats)
        self._reader = LineReader(self.formats)

    def add(self, point: Point, time: float | None) -> None:
        with self._lock:
            if time is not None:
                self._training.add(0, point, time)
            if point.loss is not None:
                self.losses.append(point.loss)

    def lines(self, texts: Sequence[str], time: float) -> None:
        for text in texts:
            if point := self._reader.point(text):
                self.add(point, time)

    def progress(self, time: float) -> Progress:
        with self._lock:
            return self._training.progress(time)
