"""The speed of the ranks over time: steps, and the CPUs that each rank uses."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from ipexctl.report.material import curves
from ipexctl.report.material.report_material import Attempt, Material

TITLE = "Ranks"
EMPTY = "No steps with their times are known: the run was short, or prints no numbered steps."


def section_document(of: Material) -> dict[str, Any]:
    heat = (_step_heat(of.last), _cpu_heat(of.last))
    return {"rate": _rate_chart(of), "heat": [one for one in heat if one]}


def _rate_chart(of: Material) -> dict[str, Any] | None:
    many = len(of.attempts) > 1
    found = []
    for one, offset in zip(of.attempts, of.offsets, strict=True):
        name = "steps per second" + (f", attempt {one.run.attempt}" if many else "")
        found.append((name, [(at + offset, value) for at, value in _step_rates(one)]))
    if of.other:
        found.append((f"in {of.other_name}", _step_rates(of.other)))
    found = [(name, points) for name, points in found if points]
    if not found:
        return None
    x = curves.thin_values(at for _, points in found for at, _ in points)
    return curves.make_chart("time", "steps/s", x, found, band=False)


def _step_rates(of: Attempt) -> list[curves.Point]:
    if of.training is None:
        return []
    edges = curves.column_edges(*of.training)
    middle = [(a + b) / 2 for a, b in zip(edges, edges[1:], strict=False)]
    rows = [curves.interval_rates(points, edges) for points in of.steps.values()]
    columns = [[v for v in column if v is not None] for column in zip(*rows, strict=True)]
    return [(at, median(c)) for at, c in zip(middle, columns, strict=True) if c]


def _step_heat(last: Attempt) -> dict[str, Any] | None:
    if last.training is None:
        return None
    edges = curves.column_edges(*last.training)
    rows = []
    for rank, points in last.steps.items():
        rates = curves.interval_rates(points, edges)
        rows.append((f"rank {rank}", [1 / r if r else None for r in rates]))
    return _heat_map(f"Step time of each rank{_attempt_suffix(last)}", "s", edges, rows)


def _cpu_heat(last: Attempt) -> dict[str, Any] | None:
    """Chart the ranks' CPU use: ranks that wait for others are idle."""
    held: dict[int, list[curves.Point]] = {}
    for record in last.records:
        for sample in record.samples:
            for one in sample.ranks:
                held.setdefault(one.rank, []).append((sample.at, one.cpus))
    times = [at for points in held.values() for at, _ in points]
    if len(set(times)) < 2:
        return None
    edges = curves.column_edges(min(times), max(times))
    middle = [(a + b) / 2 for a, b in zip(edges, edges[1:], strict=False)]
    rows = [(f"rank {r}", curves.make_curve(p, middle).middle) for r, p in sorted(held.items())]
    return _heat_map(f"CPUs that each rank uses{_attempt_suffix(last)}", "CPUs", edges, rows)


def _attempt_suffix(last: Attempt) -> str:
    return f", attempt {last.run.attempt}" if last.run.attempt > 1 else ""


def _heat_map(
    title: str, unit: str, edges: Sequence[float], rows: Sequence[tuple[str, Sequence[Any]]]
) -> dict[str, Any]:
    merged = curves.merged_rows(rows)
    whole = [(name, [v for v in values if v is not None]) for name, values in rows]
    middles = sorted(((median(v), name) for name, v in whole if v), reverse=True)
    text = ""
    if middles:
        usual = median(value for value, _ in middles)
        text = f"most: {middles[0][1]} with {middles[0][0]:.3g} {unit}; usual: {usual:.3g} {unit}"
    return {
        "title": title, "unit": unit, "text": text, "from": curves.round_value(edges[0]),
        "to": curves.round_value(edges[-1]), "rows": [[name, values] for name, values in merged],
    }  # fmt: skip
