"""What each host used over time: CPUs, memory, network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ipexctl.report.material import curves
from ipexctl.report.material.curves import Point
from ipexctl.report.material.host_record import RecordedSample
from ipexctl.report.material.report_material import Material

TITLE = "Hosts"
EMPTY = "No samples: the run was shorter than 5 s."
FEW = 8  # hosts; for more, a chart shows the median and the range

_USAGE: tuple[tuple[str, str, Callable[[Any], float | None]], ...] = (
    ("CPUs in use", "%", lambda s: None if s.cpu is None else s.cpu * 100),
    ("Memory in use", "GB", lambda s: None if s.used is None else s.used / 1e9),
    ("Network, the busiest interface", "MB/s", lambda s: None if s.net is None else s.net / 1e6),
)


def section_document(material: Material) -> dict[str, Any]:
    """Chart what each host used, over all attempts."""
    samples = dict[str, list[RecordedSample]]()
    for attempt, offset in zip(material.attempts, material.offsets, strict=True):
        for record in attempt.records:
            host_samples = (replace(row, at=row.at + offset) for row in record.samples)
            samples.setdefault(record.host, []).extend(host_samples)
    charts = []
    for title, unit, value in _USAGE:
        rows = [
            (host, [(s.at, v) for s in host_samples if (v := value(s)) is not None])
            for host, host_samples in samples.items()
        ]
        charts.append((title, unit, rows))
    rates = [(host, [*_sent_rates(host_samples)]) for host, host_samples in samples.items()]
    charts.append(("Sent by the ranks to other hosts", "MB/s", rates))
    return {"usage": [chart for row in charts if (chart := _hosts_chart(*row))]}


def _sent_rates(samples: Sequence[RecordedSample]) -> Iterable[Point]:
    points = [(sample.at, sum(rank.sent for rank in sample.ranks)) for sample in samples]
    for (a, x), (b, y) in zip(points, points[1:], strict=False):
        if b > a and y >= x:
            yield b, (y - x) / (b - a) / 1e6


def _hosts_chart(
    title: str, unit: str, rows: Sequence[tuple[str, Sequence[Point]]]
) -> dict[str, Any] | None:
    rows = [(name, points) for name, points in rows if len(points) > 1]
    if not rows:
        return None
    x = curves.thin_values(round(time, 1) for _, points in rows for time, _ in points)
    if many := len(rows) > FEW:
        all_points = [point for _, points in rows for point in points]
        rows = [(f"median of {len(rows)} hosts", all_points)]
    return {"title": title, **curves.make_chart("time", unit, x, rows, band=many)}
