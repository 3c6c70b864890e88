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
from ipexctl.run.jobs.metrics import Metrics, RankPoint, measure_rank_speed, measure_run_speed
from ipexctl.run.output.loss_check import bad_loss
from ipexctl.run.output.metric_lines import Point
from ipexctl.terminal.console import print_lines, stderr_console, stdout_console
from ipexctl.terminal.recap_lines import not_shown

VALUES = tuple(field.name for field in fields(Point))


def show_metrics(metrics: Metrics) -> None:
    console = stdout_console()
    if not metrics.points:
        print_lines(console, [Text("the output of this run has no steps or losses")])
    for rank, points in groupby(metrics.points, key=lambda point: point.rank):
        print_lines(console, [_rank_line(rank, tuple(points))])
    print_lines(stderr_console(), not_shown(metrics.recaps, metrics.answered))


def _rank_line(rank: int, points: Sequence[RankPoint]) -> Text:
    """Format a rank's metrics: first and last step and loss, and its speed."""
    losses = [point.point.loss for point in points if point.point.loss is not None]
    steps = [point.point.step for point in points if point.point.step is not None]
    speed = measure_rank_speed(points)
    texts = [f"{points[0].host} r{rank:02d}"]
    texts += [f"step {_format_span(' to ', steps, '')}"] if steps else []
    epochs = [point.point.epoch for point in points if point.point.epoch is not None]
    texts += [f"epoch {_format_span(' to ', epochs)}"] if epochs and not steps else []
    texts += [f"loss {_format_span(' -> ', losses)}"] if losses else []
    texts += [str(speed)] if speed else []
    line = Text("  ".join([*texts, count(len(points), "line")]))
    loss = bad_loss(point.point for point in points)
    return line.append(f"  loss {loss}", "red") if loss else line


def _format_span(separator: str, values: Sequence[float], form: str = ".4g") -> str:
    """Format the first and the last value; a single value appears alone."""
    shown = [values[0], values[-1]] if len(values) > 1 else [values[0]]
    return separator.join(format(value, form) for value in shown)


def write_csv(metrics: Metrics) -> None:
    """Write CSV; values that a line does not have are empty."""
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(("rank", "host", "line", "time", *VALUES))
    for point in metrics.points:
        values = (getattr(point.point, name) for name in VALUES)
        rows.writerow((point.rank, point.host, point.line, _utc(point.time), *values))


def metrics_document(metrics: Metrics) -> dict[str, Any]:
    """Return a document for JSON, which has no nan and inf: they become text."""
    speed = measure_run_speed(metrics.points)
    return {
        "run_id": metrics.run.id,
        "speed": speed.document() if speed else None,
        "points": [
            {"rank": point.rank, "host": point.host, "line": point.line, "time": _utc(point.time)}
            | _values(point.point)
            for point in metrics.points
        ],
        "bad_loss": [
            {"rank": rank, "loss": str(loss.value), "since": loss.since or None}
            for rank, points in groupby(metrics.points, key=lambda point: point.rank)
            if (loss := bad_loss(point.point for point in points))
        ],
        "command_exit_code": metrics.exit_code,
    }


def _utc(time: float | None) -> str | None:
    """Format a time to the second: it is not known more precisely."""
    if time is None:
        return None
    return datetime.fromtimestamp(round(time), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _values(point: Point) -> dict[str, float | str]:
    return {n: v if math.isfinite(v) else str(v) for n, v in point.says.items()}
