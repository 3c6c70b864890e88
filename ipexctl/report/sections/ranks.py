"""The speed of the ranks over time: steps, and the CPUs that each rank uses."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from ipexctl.report.material import curves
from ipexctl.report.material.host_record import group_by_rank
from ipexctl.report.material.report_material import Attempt, Material

TITLE = "Ranks"
EMPTY = "No steps with their times are known: the run was short, or prints no numbered steps."


def section_document(material: Material) -> dict[str, Any]:
    heat = (_step_heat(material.last), _cpu_heat(material.last))
    return {"rate": _rate_chart(material), "heat": [chart for chart in heat if chart]}


def _rate_chart(material: Material) -> dict[str, Any] | None:
    several = len(material.attempts) > 1
    series = []
    for attempt, offset in zip(material.attempts, material.offsets, strict=True):
        name = "steps per second" + (f", attempt {attempt.run.attempt}" if several else "")
        series.append((name, [(time + offset, value) for time, value in _step_rates(attempt)]))
    if material.other:
        series.append((f"in {material.other_name}", _step_rates(material.other)))
    series = [(name, points) for name, points in series if points]
    if not series:
        return None
    x = curves.thin_values(time for _, points in series for time, _ in points)
    return curves.make_chart("time", "steps/s", x, series, band=False)


def _step_rates(attempt: Attempt) -> list[curves.Point]:
    if attempt.training is None:
        return []
    edges = curves.column_edges(*attempt.training)
    centers = [(a + b) / 2 for a, b in zip(edges, edges[1:], strict=False)]
    rows = [curves.interval_rates(points, edges) for points in attempt.steps.values()]
    columns = [[v for v in column if v is not None] for column in zip(*rows, strict=True)]
    return [(time, median(rates)) for time, rates in zip(centers, columns, strict=True) if rates]


def _step_heat(last: Attempt) -> dict[str, Any] | None:
    if last.training is None:
        return None
    edges = curves.column_edges(*last.training)
    rows = []
    for rank, points in last.steps.items():
        rates = curves.interval_rates(points, edges)
        rows.append((f"rank {rank}", [1 / rate if rate else None for rate in rates]))
    return _heat_map(last, "Step time of each rank", "s", edges, rows)


def _cpu_heat(last: Attempt) -> dict[str, Any] | None:
    """Chart the ranks' CPU use: ranks that wait for others are idle."""
    samples = [sample for record in last.records for sample in record.samples]
    by_rank = group_by_rank((r.rank, (row.at, r.cpus)) for row in samples for r in row.ranks)
    times = [time for points in by_rank.values() for time, _ in points]
    if len(set(times)) < 2:
        return None
    edges = curves.column_edges(min(times), max(times))
    centers = [(a + b) / 2 for a, b in zip(edges, edges[1:], strict=False)]
    rows = [(f"rank {r}", curves.make_curve(p, centers).middle) for r, p in by_rank.items()]
    return _heat_map(last, "CPUs that each rank uses", "CPUs", edges, rows)


def _heat_map(
    last: Attempt,
    title: str,
    unit: str,
    edges: Sequence[float],
    rows: Sequence[tuple[str, Sequence[Any]]],
) -> dict[str, Any]:
    title += f", attempt {last.run.attempt}" if last.run.attempt > 1 else ""
    known = [(name, [v for v in values if v is not None]) for name, values in rows]
    middles = sorted(((median(v), name) for name, v in known if v), reverse=True)
    text = ""
    if middles:
        typical = median(value for value, _ in middles)
        text = f"most: {middles[0][1]} with {middles[0][0]:.3g} {unit}; usual: {typical:.3g} {unit}"
    return {
        "title": title,
        "unit": unit,
        "text": text,
        "from": curves.round_value(edges[0]),
        "to": curves.round_value(edges[-1]),
        "rows": curves.merged_rows(rows),
    }
