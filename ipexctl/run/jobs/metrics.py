"""metrics: read steps, losses and rates from the output of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.jobs.logs import Wanted, show_logs
from ipexctl.run.jobs.ps import AskedRun
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.output.metric_lines import (
    LineReader,
    Numbers,
    Point,
    read_named_numbers,
    spelled_losses,
)
from ipexctl.run.output.rank_lines import Span
from ipexctl.run.pace.run_speed import Counted, Speed, measure_speed
from ipexctl.run.watch.metric_formats import metric_formats


@dataclass(frozen=True)
class RankPoint:
    """A line with metrics. `line` counts the rank's lines from 1; each state of a progress bar is
    one. `time`: when it was printed, by the host's clock, at most `within` seconds earlier; None if
    unknown. `numbers`: all named numbers in the line, if requested, and `spelled` how the line
    names its losses. `bar`: whether it is a progress bar."""

    host: str
    rank: int
    line: int
    point: Point
    time: float | None = None
    numbers: Numbers = ()
    bar: bool = False
    within: float = 0.0
    spelled: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Metrics(AskedRun):
    points: tuple[RankPoint, ...]


@dataclass
class MetricReader:
    named: bool = False
    points: list[RankPoint] = field(default_factory=list)
    _lines: dict[int, int] = field(default_factory=dict)
    _readers: dict[int, LineReader] = field(default_factory=dict)
    _times: dict[int, Span | None] = field(default_factory=dict)

    def set_time(self, rank: int, span: Span | None) -> None:
        self._times[rank] = span

    def add_lines(self, run: ListedRun, host: str, rank: int, texts: Sequence[str]) -> None:
        reader = self._readers.setdefault(rank, LineReader(metric_formats()))
        count = self._lines.get(rank, 0)
        span = self._times.get(rank)
        for index, text in enumerate(texts, 1):
            point = reader.point(text)
            named: Numbers = ()
            spelled: dict[str, str] = {}
            if self.named:
                named = read_named_numbers(text, point, reader.formats)
                spelled = spelled_losses(text, point, reader.formats)
            if point or named:
                time = span and span[0] + (span[1] - span[0]) * index / len(texts)
                within = span[1] - span[0] if span else 0.0
                line, bar = count + index, "%|" in text
                own = point or Point()
                names = tuple(spelled.items())
                self.points.append(
                    RankPoint(host, rank, line, own, time, named, bar, within, names)
                )
        self._lines[rank] = count + len(texts)


def read_metrics(
    target: Target, run: str, ranks: tuple[int, ...] = (), root: str = ROOT, *, named: bool = False
) -> Metrics:
    """Read the metrics on the hosts, during the run or after it; the output stays there. `named`:
    also return all named numbers, and lines that have nothing else."""
    reader = MetricReader(named)
    logs = show_logs(
        target, Wanted(run, ranks, bars=True), reader.add_lines, root, when=reader.set_time
    )
    points = sorted(reader.points, key=lambda point: (point.rank, point.line))
    return Metrics(logs.run, logs.recaps, logs.answered, tuple(points))


def measure_run_speed(points: Iterable[RankPoint]) -> Speed | None:
    """Return the speed of the lowest rank whose output says one. The points of a rank are in the
    order of its lines."""
    by_rank: dict[int, list[RankPoint]] = {}
    for point in points:
        by_rank.setdefault(point.rank, []).append(point)
    speeds = (measure_rank_speed(by_rank[rank]) for rank in sorted(by_rank))
    return next((speed for speed in speeds if speed), None)


def measure_rank_speed(points: Sequence[RankPoint]) -> Speed | None:
    """Return a rank's speed by its printed steps, rates or epochs."""
    dated = [(point, point.time) for point in points if point.time is not None]
    steps = [
        Counted(time, point.point.step, point.within)
        for point, time in dated
        if point.point.step is not None
    ]
    epochs = [
        Counted(time, epoch, point.within)
        for point, time in dated
        if (epoch := dict(point.numbers).get("epoch", point.point.epoch)) is not None
    ]
    return measure_speed(steps, epochs, (p.point.rate for p in points if p.point.rate))
