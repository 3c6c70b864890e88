"""The parts of a report about hosts: use over time, places of ranks, variables, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ipexctl.base.sizes import human
from ipexctl.inventory.nodeset import fold
from ipexctl.report import curves
from ipexctl.report.host_record import Sample
from ipexctl.report.report_material import Attempt, Material
from ipexctl.run.outcome.listed_checkpoints import Checkpoint

FEW = 8  # hosts; of more, a chart shows the median and the range

_USAGE: tuple[tuple[str, str, Callable[[Any], float | None]], ...] = (
    ("CPUs in use", "%", lambda s: None if s.cpu is None else s.cpu * 100),
    ("Memory in use", "GB", lambda s: None if s.used is None else s.used / 1e9),
    ("Network, the busiest interface", "MB/s", lambda s: None if s.net is None else s.net / 1e6),
)


def usage(of: Material) -> list[dict[str, Any]]:
    """Chart what each host used, over all attempts."""
    samples = dict[str, list[Sample]]()
    for attempt, offset in zip(of.attempts, of.offsets, strict=True):
        for record in attempt.records:
            own = (replace(one, at=one.at + offset) for one in record.samples)
            samples.setdefault(record.host, []).extend(own)
    charts = []
    for title, unit, value in _USAGE:
        rows = [
            (host, [(s.at, v) for s in own if (v := value(s)) is not None])
            for host, own in samples.items()
        ]
        charts.append((title, unit, rows))
    sent = [(host, [*_sent(own)]) for host, own in samples.items()]
    charts.append(("Sent by the ranks to other hosts", "MB/s", sent))
    return [found for one in charts if (found := _hosts_chart(*one))]


def _sent(samples: Sequence[Sample]) -> Iterable[curves.Point]:
    points = [(s.at, sum(one.sent for one in s.ranks)) for s in samples]
    for (a, x), (b, y) in zip(points, points[1:], strict=False):
        if b > a and y >= x:
            yield b, (y - x) / (b - a) / 1e6


def _hosts_chart(
    title: str, unit: str, rows: Sequence[tuple[str, Sequence[curves.Point]]]
) -> dict[str, Any] | None:
    rows = [(name, points) for name, points in rows if len(points) > 1]
    if not rows:
        return None
    x = curves.grid(round(at, 1) for _, points in rows for at, _ in points)
    if len(rows) <= FEW:
        return {"title": title, **curves.chart("time", unit, x, rows, band=False)}
    everything = [point for _, points in rows for point in points]
    series = [(f"median of {len(rows)} hosts", everything)]
    return {"title": title, **curves.chart("time", unit, x, series, band=True)}


def places(last: Attempt) -> list[dict[str, Any]]:
    """Hosts that are alike share one map."""
    real = {rank: cpus for record in last.records for rank, cpus in record.places}
    sockets = {record.host: record.sockets for record in last.records}
    groups: dict[Any, list[str]] = {}
    first: dict[Any, Any] = {}
    for host in last.plan.hosts if last.plan else ():
        ranks = [(p.local_rank, p.cpus, real.get(p.rank)) for p in host.ranks]
        key = (sockets.get(host.host, ()), tuple(ranks))
        groups.setdefault(key, []).append(host.host)
        first.setdefault(key, host)
    return [
        {
            "hosts": fold(names),
            "shown": names[0] if len(names) > 1 else "",
            "sockets": [[socket, node, cores] for socket, node, cores in key[0]],
            "ranks": [
                {"rank": p.rank, "planned": p.cpus, "real": real.get(p.rank)}
                for p in first[key].ranks
            ],
        }
        for key, names in groups.items()
    ]


def variables(last: Attempt) -> list[list[str]]:
    """Name, value, reason, hosts: those that have other values than the first have rows of
    their own."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for record in last.records:
        for one in record.variables:
            key = (one.name, one.value, one.why or "set with --env")
            found.setdefault(key, []).append(record.host)
    every = len(last.records)
    return [
        [*key, "all hosts" if len(names) == every else fold(names)]
        for key, names in sorted(found.items())
    ]


def checkpoint(one: Checkpoint) -> list[str]:
    state = "complete" if one.complete else one.why
    step = "" if one.step is None else str(one.step)
    return [one.name, step, human(one.bytes), state, fold(one.hosts)]
