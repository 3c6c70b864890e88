"""Curves of what the ranks print: loss, speed, and every other number with a name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from statistics import median
from typing import Any

from ipexctl.report import curves, step_axis
from ipexctl.report.host_record import Printed
from ipexctl.report.report_material import Attempt, Material
from ipexctl.report.step_axis import Value

MOST = 40  # curves of other numbers
COUNTERS = ("step", "epoch")
EVALUATIONS = ("eval", "val", "test")
Row = tuple[str, Sequence[Sequence[Value]]]  # name, and the values of each attempt


def called(other: Attempt, last: Attempt) -> str:
    name = other.run.about.name
    return name if name and name != last.run.about.name else "the other run"


def loss(of: Material) -> dict[str, Any] | None:
    rows = [("loss", _field(of.attempts, "loss"))]
    if _beside(of):
        rows.append(("evaluation", _field(of.attempts, "eval_loss")))
    if of.other:
        name = f"loss of {called(of.other, of.attempts[-1])}"
        rows.append((name, _field([of.other], "loss")))
    return _chart(rows)


def loss_ends(
    attempts: Sequence[Attempt], *, first: bool = False
) -> tuple[str, float, float] | None:
    """The axis, where the last loss stands there, and the median of the ranks' losses there."""
    rows = _field(attempts, "loss")
    axis = step_axis.axis(rows)
    points = next((p for row in rows if (p := step_axis.points(row, axis))), [])
    if not points:
        return None
    end = (min if first else max)(at for at, _ in points)
    values = [value for at, value in points if at == end]
    return axis, end, next((v for v in values if not isfinite(v)), median(values))


def metrics(of: Material) -> list[dict[str, Any]]:
    """One small curve for each name."""
    rows = list[Row]()
    if not _beside(of):
        rows.append(("evaluation loss", _field(of.attempts, "eval_loss")))
    lines = [one for attempt in of.attempts for one in attempt.printed]
    names = dict.fromkeys(name for one in lines for name, _ in one.numbers)
    rows += [(name, _named(of.attempts, name)) for name in names if name not in COUNTERS]
    found = [(name, _chart([(name, values)])) for name, values in rows]
    return [{"title": name, **chart} for name, chart in found if chart][:MOST]


def _beside(of: Material) -> bool:
    """Whether the loss and that of evaluations stand on the same axis."""
    one, other = (_field(of.attempts, name) for name in ("loss", "eval_loss"))
    return any(one) and step_axis.axis(one) == step_axis.axis(other if any(other) else one)


def _field(attempts: Sequence[Attempt], name: str) -> list[list[Value]]:
    rows = ([(one, getattr(one, name)) for one in a.printed] for a in attempts)
    return _known(rows, name)


def _named(attempts: Sequence[Attempt], name: str) -> list[list[Value]]:
    return _known(([(p, dict(p.numbers).get(name)) for p in a.printed] for a in attempts), name)


def _known(rows: Iterable[Sequence[tuple[Printed, float | None]]], name: str) -> list[list[Value]]:
    found = ([(one, value) for one, value in row if value is not None] for row in rows)
    shorten = step_axis.without_repeats if name.startswith(EVALUATIONS) else list[Value]
    return [shorten(row) for row in found]


def _chart(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Each attempt has a line of its own: a later one repeats steps of one before it."""
    axis = step_axis.axis([values for _, attempts in rows for values in attempts])
    series = []
    for name, attempts in rows:
        for number, values in enumerate(attempts, 1):
            again = f", attempt {number}" if len(attempts) > 1 else ""
            if found := step_axis.points(values, axis):
                series.append((name + again, found))
    if not series:
        return None
    x = curves.grid(at for _, points in series for at, _ in points)
    odd = [at for _, points in series for at, value in points if not isfinite(value)]
    note = f"nan or inf first at {axis.removesuffix(' n')} {min(odd):,.6g}" if odd else ""
    return {**curves.chart(axis, "", x, series, band=True), "note": note}


def rate(of: Material) -> dict[str, Any] | None:
    many = len(of.attempts) > 1
    found = []
    for one, offset in zip(of.attempts, of.offsets, strict=True):
        name = "steps per second" + (f", attempt {one.run.attempt}" if many else "")
        found.append((name, [(at + offset, value) for at, value in _rates(one)]))
    if of.other:
        found.append((f"in {called(of.other, of.attempts[-1])}", _rates(of.other)))
    found = [(name, points) for name, points in found if points]
    if not found:
        return None
    x = curves.grid(at for _, points in found for at, _ in points)
    return curves.chart("time", "steps/s", x, found, band=False)


def _rates(of: Attempt) -> list[curves.Point]:
    if of.training is None:
        return []
    edges = curves.edges(*of.training)
    middle = [(a + b) / 2 for a, b in zip(edges, edges[1:], strict=False)]
    rows = [curves.rates(points, edges) for points in of.steps.values()]
    columns = [[v for v in column if v is not None] for column in zip(*rows, strict=True)]
    return [(at, median(c)) for at, c in zip(middle, columns, strict=True) if c]
