"""Reduce many points to as many as a chart of a thousand pixels can show."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import isfinite
from operator import itemgetter
from statistics import median
from typing import Any

from ipexctl.quick_dataclass import dataclass

Point = tuple[float, float]
BUCKETS = 400  # of a curve
COLUMNS, ROWS = 120, 256  # of a heat map, at most


@dataclass(frozen=True)
class Curve:
    """The median, minimum and maximum of the values at each `x`. None: no value."""

    middle: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


def round_value(value: float | None) -> float | None:
    """Round to four digits: a chart shows no more."""
    if value is None or not isfinite(value):
        return None
    rounded = float(f"{value:.4g}")
    return rounded if isfinite(rounded) else value


def thin_values(values: Iterable[float], limit: int = BUCKETS) -> tuple[float, ...]:
    """Return the values if they are few, else some of them, including the first and the last."""
    distinct = sorted(set(values))
    if len(distinct) <= limit:
        return tuple(distinct)
    return tuple(distinct[i * (len(distinct) - 1) // (limit - 1)] for i in range(limit))


def make_curve(points: Iterable[Point], x: Sequence[float]) -> Curve:
    """Return a curve; each point counts for the nearest `x`."""
    buckets: list[list[float]] = [[] for _ in x]
    index = 0
    for place, value in sorted(point for point in points if isfinite(point[1])):
        while index + 1 < len(x) and abs(x[index + 1] - place) <= abs(x[index] - place):
            index += 1
        buckets[index].append(value)
    rows = [
        (round_value(median(h)), round_value(min(h)), round_value(max(h))) if h else (None,) * 3
        for h in buckets
    ]
    return Curve(*zip(*rows, strict=True)) if rows else Curve((), (), ())


def make_chart(
    axis: str,
    unit: str,
    x: Sequence[float],
    series: Iterable[tuple[str, Sequence[Point]]],
    *,
    band: bool,
) -> dict[str, Any]:
    """Return a chart for page.js. `axis`: what `x` is. `band`: with minimum and maximum values."""
    curves_by_name = [(name, make_curve(points, x)) for name, points in series]
    return {
        "axis": axis,
        "unit": unit,
        "x": [round(value, 3) for value in x],
        "series": [
            {"name": name, "y": list(c.middle)}
            | ({"low": list(c.low), "high": list(c.high)} if band and c.low != c.high else {})
            for name, c in curves_by_name
        ],
    }


def interval_rates(points: Sequence[Point], edges: Sequence[float]) -> list[float | None]:
    """Return the growth per second of a counter in each interval; None if it was not sampled."""
    rates: list[float | None] = []
    for since, until in zip(edges, edges[1:], strict=False):
        start, end = _interpolate_value(points, since), _interpolate_value(points, until)
        rates.append(None if start is None or end is None else (end - start) / (until - since))
    return rates


def _interpolate_value(points: Sequence[Point], time: float) -> float | None:
    """Interpolate between the two nearest points; None outside of their range."""
    if not points or not points[0][0] <= time <= points[-1][0]:
        return None
    after = min(bisect_right(points, time, key=itemgetter(0)), len(points) - 1)
    (t0, v0), (t1, v1) = points[max(0, after - 1)], points[after]
    return v0 if t1 == t0 else v0 + (v1 - v0) * (time - t0) / (t1 - t0)


def growing_points(points: Iterable[Point]) -> list[Point]:
    """Return the last value at each time, in order of time, without decreasing values: an epoch may
    restart its count of steps."""
    growing: list[Point] = []
    for time, value in sorted(points):
        if growing and growing[-1][0] == time:
            growing[-1] = (time, max(value, growing[-1][1]))
        elif not growing or value >= growing[-1][1]:
            growing.append((time, value))
    return growing


def column_edges(since: float, until: float, least: float = 5.0) -> list[float]:
    """Return the edges of a heat map's columns, each at least `least` seconds wide."""
    count = max(1, min(COLUMNS, int((until - since) / least)))
    return [since + (until - since) * i / count for i in range(count + 1)]


def merged_rows(
    rows: Sequence[tuple[str, Sequence[float | None]]],
) -> list[tuple[str, list[float | None]]]:
    """Merge rows if there are very many ranks: each merged row shows the largest values."""
    size = -(-len(rows) // ROWS) or 1
    merged = []
    for first in range(0, len(rows), size):
        group = rows[first : first + size]
        name = group[0][0] if len(group) == 1 else f"{group[0][0]} to {group[-1][0]}"
        columns = zip(*(values for _, values in group), strict=True)
        known = ([value for value in column if value is not None] for column in columns)
        merged.append((name, [round_value(max(values, default=None)) for values in known]))
    return merged
