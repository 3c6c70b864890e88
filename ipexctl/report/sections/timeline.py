"""The phases of a run on each host.

Each host's times are by its own clock, from the beginning of the run there: that is the same moment
on all hosts, up to the duration of the start. A host without a last record was lost after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ipexctl.report.material import curves
from ipexctl.report.material.curves import Point
from ipexctl.report.material.host_record import HostRecord
from ipexctl.report.material.report_material import Material
from ipexctl.run.outcome.listed_runs import ListedRun

TITLE = "Timeline"
EMPTY = "The hosts have no record of this run."
BEFORE = {"hosts": "connect", "plan": "plan", "preflight": "preflight", "sync": "sync"}
SILENT = 5.0  # seconds without a record: a host with a run writes a sample every 2.5 s
Span = tuple[str, float, float]  # phase, from, to


def section_document(of: Material) -> dict[str, Any]:
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
    rounded = curves.round_value
    timeline = {
        "from": rounded(first),
        "to": rounded(max((b for _, _, b in every), default=0.0)),
        "lanes": [
            {"host": host, "spans": [[kind, rounded(a), rounded(b)] for kind, a, b in spans]}
            for host, spans in lanes.items()
        ],
    }
    return {"timeline": timeline}


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
