"""Reduce many points to as many as a chart of a thousand pixels can show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from statistics import median
from typing import Any

from ipexctl.quick_dataclass import dataclass

Point = tuple[float, float]
BUCKETS = 400  # of a curve
COLUMNS, ROWS = 120, 256  # of a heat map, at most


@dataclass(frozen=True)
class Curve:
    """The median, minimum and maximum of the values at each `x`. None: no value."""

    x: tuple[float, ...]
    middle: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


def round_value(value: float | None) -> float | None:
    """Round to four digits: a chart shows no more."""
    if value is None or not isfinite(value):
        return None
    rounded = float(f"{value:.4g}")
    return rounded if isfinite(rounded) else value


def thin_values(values: Iterable[float], most: int = BUCKETS) -> tuple[float, ...]:
    """Return the values if they are few, else some of them, including the first and the last."""
    found = sorted(set(values))
    if len(found) <= most:
        return tuple(found)
    return tuple(found[i * (len(found) - 1) // (most - 1)] for i in range(most))


def make_curve(points: Iterable[Point], x: Sequence[float]) -> Curve:
    """Return a curve; each point counts for the nearest `x`."""
    held: list[list[float]] = [[] for _ in x]
    at = 0
    for place, value in sorted(p for p in points if isfinite(p[1])):
        while at + 1 < len(x) and abs(x[at + 1] - place) <= abs(x[at] - place):
            at += 1
        if held:
            held[at].append(value)
    rows = [
        (round_value(median(h)), round_value(min(h)), round_value(max(h))) if h else (None,) * 3
        for h in held
    ]
    middle, low, high = zip(*rows, strict=True) if rows else ((), (), ())
    return Curve(tuple(x), middle, low, high)


def make_chart(
    axis: str, unit: str, x: Sequence[float],
    series: Iterable[tuple[str, Sequence[Point]]], *, band: bool,
) -> dict[str, Any]:  # fmt: skip
    """Return a chart for page.js. `axis`: what `x` is. `band`: with minimum and maximum values."""
    made = [(name, make_curve(points, x)) for name, points in series]
    return {
        "axis": axis,
        "unit": unit,
        "x": [round(value, 3) for value in x],
        "series": [
            {"name": name, "y": list(c.middle)}
            | ({"low": list(c.low), "high": list(c.high)} if band and c.low != c.high else {})
            for name, c in made
        ],
    }


def interval_rates(points: Sequence[Point], edges: Sequence[float]) -> list[float | None]:
    """Return the growth per second of a counter in each interval; None if it was not sampled."""
    found: list[float | None] = []
    for since, until in zip(edges, edges[1:], strict=False):
        a, b = _interpolate_value(points, since), _interpolate_value(points, until)
        found.append(None if a is None or b is None else (b - a) / (until - since))
    return found


def _interpolate_value(points: Sequence[Point], at: float) -> float | None:
    if not points or not points[0][0] <= at <= points[-1][0]:
        return None
    low, high = 0, len(points) - 1
    while high - low > 1:
        mid = (low + high) // 2
        low, high = (mid, high) if points[mid][0] <= at else (low, mid)
    (t0, v0), (t1, v1) = points[low], points[high]
    return v0 if t1 == t0 else v0 + (v1 - v0) * (at - t0) / (t1 - t0)


def growing_points(points: Iterable[Point]) -> list[Point]:
    """Return the last value at each time, in order of time, without decreasing values: an epoch may
    restart its count of steps."""
    found: list[Point] = []
    for at, value in sorted(points):
        if found and found[-1][0] == at:
            found[-1] = (at, max(value, found[-1][1]))
        elif not found or value >= found[-1][1]:
            found.append((at, value))
    return found


def column_edges(since: float, until: float, least: float = 5.0) -> list[float]:
    """Return the edges of a heat map's columns, each at least `least` seconds wide."""
    count = max(1, min(COLUMNS, int((until - since) / least)))
    return [since + (until - since) * i / count for i in range(count + 1)]


def merged_rows(
    rows: Sequence[tuple[str, Sequence[float | None]]],
) -> list[tuple[str, list[float | None]]]:
    """Merge rows if there are very many ranks: each merged row shows the largest values."""
    size = -(-len(rows) // ROWS) or 1
    found = []
    for first in range(0, len(rows), size):
        some = rows[first : first + size]
        name = some[0][0] if len(some) == 1 else f"{some[0][0]} to {some[-1][0]}"
        columns = zip(*(values for _, values in some), strict=True)
        found.append((name, [_largest_value(column) for column in columns]))
    return found


def _largest_value(column: Iterable[float | None]) -> float | None:
    return round_value(max((v for v in column if v is not None), default=None))
