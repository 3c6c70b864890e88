"""Print what `metrics` shows: a line for each rank, CSV, or JSON."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime, timezone
from itertools import groupby
from typing import Any

from rich.text import Text

from ipexctl.base.sizes import count
from ipexctl.run.jobs.metrics import Metrics, RankPoint
from ipexctl.run.output.loss_check import bad_loss
from ipexctl.run.output.metric_lines import Point
from ipexctl.terminal.console import print_lines, stderr_console, stdout_console
from ipexctl.terminal.recap_lines import not_shown

VALUES = tuple(field.name for field in fields(Point))


def show_metrics(found: Metrics) -> None:
    console = stdout_console()
    if not found.points:
        print_lines(console, [Text("the output of this run has no steps or losses")])
    for rank, points in groupby(found.points, key=lambda p: p.rank):
        print_lines(console, [_rank_line(rank, tuple(points))])
    print_lines(stderr_console(), not_shown(found.recaps, found.answered))


def _rank_line(rank: int, points: Sequence[RankPoint]) -> Text:
    losses = [p.point.loss for p in points if p.point.loss is not None]
    steps = [p.point.step for p in points if p.point.step is not None]
    rates = sorted(p.point.rate for p in points if p.point.rate is not None)
    parts = [f"{points[0].host} r{rank:02d}"]
    parts += [f"step {_from_to(' to ', steps, '')}"] if steps else []
    epochs = [p.point.epoch for p in points if p.point.epoch is not None]
    parts += [f"epoch {_from_to(' to ', epochs)}"] if epochs and not steps else []
    parts += [f"loss {_from_to(' -> ', losses)}"] if losses else []
    parts += [f"{rates[len(rates) // 2]:.3g} it/s"] if rates else []
    line = Text("  ".join([*parts, count(len(points), "line")]))
    bad = bad_loss(p.point for p in points)
    return line.append(f"  loss {bad}", "red") if bad else line


def _from_to(between: str, values: Sequence[float], form: str = ".4g") -> str:
    """Format the first and the last value; a single value appears alone."""
    ends = [values[0], values[-1]] if len(values) > 1 else [values[0]]
    return between.join(format(value, form) for value in ends)


def write_csv(found: Metrics) -> None:
    """Write CSV; values that a line does not have are empty."""
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(("rank", "host", "line", "time", *VALUES))
    for p in found.points:
        values = (getattr(p.point, name) for name in VALUES)
        rows.writerow((p.rank, p.host, p.line, _utc(p.time), *values))


def metrics_document(found: Metrics) -> dict[str, Any]:
    """Return a document for JSON, which has no nan and inf: they become text."""
    return {
        "run_id": found.run.id,
        "points": [
            {"rank": p.rank, "host": p.host, "line": p.line, "time": _utc(p.time)}
            | _values(p.point)
            for p in found.points
        ],
        "bad_loss": [
            {"rank": rank, "loss": str(bad.value), "since": bad.since or None}
            for rank, points in groupby(found.points, key=lambda p: p.rank)
            if (bad := bad_loss(p.point for p in points))
        ],
        "command_exit_code": found.exit_code,
    }


def _utc(time: float | None) -> str | None:
    """Format a time to the second: it is not known more precisely."""
    if time is None:
        return None
    return datetime.fromtimestamp(round(time), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _values(point: Point) -> dict[str, float | str]:
    return {n: v if math.isfinite(v) else str(v) for n, v in point.says.items()}
