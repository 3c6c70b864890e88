"""The parts of a report about hosts: phases and use over time, places of ranks, variables.

Each host's times are by its own clock, from the beginning of the run there: that is the same moment
on all hosts, up to the duration of the start. A host without a last record was lost after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ipexctl.base.sizes import format_bytes
from ipexctl.inventory.nodeset import fold
from ipexctl.report import curves
from ipexctl.report.curves import Point
from ipexctl.report.host_record import HostRecord, RecordedSample
from ipexctl.report.report_material import Attempt, Material
from ipexctl.run.checkpoints.listed_checkpoints import ListedCheckpoint
from ipexctl.run.outcome.listed_runs import ListedRun

BEFORE = {"hosts": "connect", "plan": "plan", "preflight": "preflight", "sync": "sync"}
SILENT = 5.0  # seconds without a record: a host with a run writes a sample every 2.5 s
Span = tuple[str, float, float]  # phase, from, to


def host_timeline(of: Material) -> dict[str, Any]:
    lanes: dict[str, list[Span]] = {}
    until = [*of.offsets[1:], None]  # when the next attempt begins
    for attempt, offset, then in zip(of.attempts, of.offsets, until, strict=True):
        for record in attempt.records:
            spans = spans_before_run(record) if offset == 0 else []
            own = lanes.setdefault(record.host, [])
            if own and offset > own[-1][2]:
                own.append(("restart", own[-1][2], offset))
            for kind, a, b in spans + run_phases(attempt.run, record, attempt.steps):
                a, b = a + offset, min(b + offset, b + offset if then is None else then)
                own += [(kind, a, b)] if b > a else []
    every = [span for spans in lanes.values() for span in spans]
    first = min((a for _, a, _ in every), default=0.0)
    return {
        "from": curves.round_value(first),
        "to": curves.round_value(max((b for _, _, b in every), default=0.0)),
        "lanes": [
            {
                "host": host,
                "spans": [
                    [kind, curves.round_value(a), curves.round_value(b)] for kind, a, b in spans
                ],
            }
            for host, spans in lanes.items()
        ],
    }


def spans_before_run(record: HostRecord) -> list[Span]:
    """Return what the command did before the run began, one phase after the other."""
    took = dict(record.inputs.before if record.inputs else ())
    rows = [(phase, took[name]) for name, phase in BEFORE.items() if took.get(name)]
    at, found = -sum(seconds for _, seconds in rows), list[Span]()
    for phase, seconds in rows:
        found.append((phase, at, at + seconds))
        at += seconds
    return found


def run_phases(
    run: ListedRun, record: HostRecord, steps: Mapping[int, Sequence[Point]]
) -> list[Span]:
    """Return launch, import until the first printed step, training and end, with stalls."""
    ranks = {one.rank for sample in record.samples for one in sample.ranks}
    ranks |= _planned_ranks(record)
    starts = [at for rank, at in record.starts if rank in ranks or not ranks]
    ends = [at for rank, at in record.ends if rank in ranks or not ranks]
    end = max(run.seconds, *ends, 0.0)
    lost = run.over and record.over is None and end - record.seen > SILENT
    over = record.seen if lost else end if record.over is None else record.over
    silent = [("lost", record.seen, end)] if lost else []
    if not starts:
        return [("launch", 0.0, over), *silent]
    begun, ended = max(starts), max(ends, default=over)
    own = [points for rank, points in steps.items() if rank in ranks and points]
    own = own or [points for points in steps.values() if points]  # only rank 0 prints
    first = min((points[0][0] for points in own), default=None)
    last = max((points[-1][0] for points in own), default=None)
    found = [("launch", 0.0, begun)]
    if first is None or last is None:
        found.append(("ranks run", begun, ended))
    else:
        last = last if run.over or ends else ended  # of a run that still goes on
        first, last = max(begun, first), min(ended, max(begun, last))
        found += [("until the first step", begun, first), ("training", first, last)]
        found.append(("after the last step", last, ended))
    found.append(("end", ended, over))
    found += silent
    found += [("stall", since, min(until or over, over)) for since, until in record.stalls]
    return [span for span in found if span[2] > span[1]]


def _planned_ranks(record: HostRecord) -> set[int]:
    hosts = record.plan.get("hosts") if isinstance(record.plan, dict) else None
    own = [h for h in hosts or () if isinstance(h, dict) and h.get("name") == record.host]
    rows = own[0].get("ranks") if own else None
    return {row[0] for row in rows or () if isinstance(row, list) and row and type(row[0]) is int}


FEW = 8  # hosts; for more, a chart shows the median and the range

_USAGE: tuple[tuple[str, str, Callable[[Any], float | None]], ...] = (
    ("CPUs in use", "%", lambda s: None if s.cpu is None else s.cpu * 100),
    ("Memory in use", "GB", lambda s: None if s.used is None else s.used / 1e9),
    ("Network, the busiest interface", "MB/s", lambda s: None if s.net is None else s.net / 1e6),
)


def usage_charts(of: Material) -> list[dict[str, Any]]:
    """Chart what each host used, over all attempts."""
    samples = dict[str, list[RecordedSample]]()
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
    sent = [(host, [*_sent_rates(own)]) for host, own in samples.items()]
    charts.append(("Sent by the ranks to other hosts", "MB/s", sent))
    return [found for one in charts if (found := _hosts_chart(*one))]


def _sent_rates(samples: Sequence[RecordedSample]) -> Iterable[Point]:
    points = [(s.at, sum(one.sent for one in s.ranks)) for s in samples]
    for (a, x), (b, y) in zip(points, points[1:], strict=False):
        if b > a and y >= x:
            yield b, (y - x) / (b - a) / 1e6


def _hosts_chart(
    title: str, unit: str, rows: Sequence[tuple[str, Sequence[Point]]]
) -> dict[str, Any] | None:
    rows = [(name, points) for name, points in rows if len(points) > 1]
    if not rows:
        return None
    x = curves.thin_values(round(at, 1) for _, points in rows for at, _ in points)
    if len(rows) <= FEW:
        return {"title": title, **curves.make_chart("time", unit, x, rows, band=False)}
    everything = [point for _, points in rows for point in points]
    series = [(f"median of {len(rows)} hosts", everything)]
    return {"title": title, **curves.make_chart("time", unit, x, series, band=True)}


def rank_places(last: Attempt) -> list[dict[str, Any]]:
    """Return the placement of ranks; equal hosts share one map."""
    real = {rank: cpus for record in last.records for rank, cpus in record.places}
    sockets = {record.host: record.inputs.sockets for record in last.records if record.inputs}
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


def variable_rows(last: Attempt) -> list[list[str]]:
    """Return rows of name, value, reason and hosts; hosts with other values than the first have
    rows of their own."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for record, inputs in ((r, r.inputs) for r in last.records if r.inputs):
        given, why = (dict(v) for v in (inputs.variables, inputs.reasons))
        for name, value in given.items():
            key = (name, value, why.get(name) or "set with --env")
            found.setdefault(key, []).append(record.host)
    every = len(last.records)
    return [
        [*key, "all hosts" if len(names) == every else fold(names)]
        for key, names in sorted(found.items())
    ]


def checkpoint_row(one: ListedCheckpoint) -> list[str]:
    state = "complete" if one.complete else one.why
    step = "" if one.step is None else str(one.step)
    return [one.name, step, format_bytes(one.bytes), state, fold(one.hosts)]
