"""The phases of a run on each host.

Each host's times are by its own clock, from the beginning of the run there: that is the same moment
on all hosts, up to the duration of the start. A host without a last record was lost after it.
"""

from __future__ import annotations

from math import inf
from typing import Any

from ipexctl.report.material import curves
from ipexctl.report.material.host_record import HostRecord
from ipexctl.report.material.report_material import Attempt, Material
from ipexctl.run.outcome.run_state import Phase

TITLE = "Timeline"
EMPTY = "The hosts have no record of this run."
BEFORE = {"hosts": "connect", "plan": "plan", "preflight": "preflight", "sync": "sync"}
SILENT = 5.0  # seconds without a record: a host with a run writes a sample every 2.5 s
Span = tuple[str, float, float]  # phase, from, to


def section_document(material: Material) -> dict[str, Any]:
    lanes: dict[str, list[Span]] = {}
    ends = [*material.offsets[1:], inf]  # when the next attempt begins
    for attempt, offset, end in zip(material.attempts, material.offsets, ends, strict=True):
        for record in attempt.records:
            spans = spans_before_run(record) if offset == 0 else []
            lane = lanes.setdefault(record.host, [])
            if lane and offset > lane[-1][2]:
                lane.append(("restart", lane[-1][2], offset))
            for kind, a, b in spans + run_phases(attempt, record):
                a, b = a + offset, min(b + offset, end)
                lane += [(kind, a, b)] if b > a else []
    all_spans = [span for spans in lanes.values() for span in spans]
    first = min((a for _, a, _ in all_spans), default=0.0)
    rounded = curves.round_value
    timeline = {
        "from": rounded(first),
        "to": rounded(max((b for _, _, b in all_spans), default=0.0)),
        "lanes": [
            {"host": host, "spans": [[kind, rounded(a), rounded(b)] for kind, a, b in spans]}
            for host, spans in lanes.items()
        ],
    }
    return {"timeline": timeline}


def spans_before_run(record: HostRecord) -> list[Span]:
    """Return what the command did before the run began, one phase after the other."""
    times = record.inputs.before if record.inputs else {}
    rows = [(phase, times[name]) for name, phase in BEFORE.items() if times.get(name)]
    start, spans = -sum(seconds for _, seconds in rows), list[Span]()
    for phase, seconds in rows:
        spans.append((phase, start, start + seconds))
        start += seconds
    return spans


def run_phases(attempt: Attempt, record: HostRecord) -> list[Span]:
    """Return launch, import until the first printed step, training and end, with stalls."""
    run, steps = attempt.run, attempt.steps
    ranks = {rank_sample.rank for sample in record.samples for rank_sample in sample.ranks}
    planned = attempt.plan.hosts if attempt.plan else ()
    ranks |= {place.rank for host in planned if host.host == record.host for place in host.ranks}
    starts = [time for rank, time in record.starts if rank in ranks or not ranks]
    ends = [time for rank, time in record.ends if rank in ranks or not ranks]
    end = max(run.seconds, *ends, 0.0)
    lost = run.over and record.over is None and end - record.seen > SILENT
    ended_at = record.seen if lost else end if record.over is None else record.over
    silent = [("lost", record.seen, end)] if lost else []
    if not starts:
        waits = "in the queue" if run.phase is Phase.QUEUED else "launch"
        return [(waits, 0.0, ended_at), *silent]
    started, ended = max(starts), max(ends, default=ended_at)
    printed = [points for rank, points in steps.items() if rank in ranks and points]
    printed = printed or [points for points in steps.values() if points]  # only rank 0 prints
    first = min((points[0][0] for points in printed), default=None)
    last = max((points[-1][0] for points in printed), default=None)
    spans = [("launch", 0.0, started)]
    if first is None or last is None:
        spans.append(("ranks run", started, ended))
    else:
        last = last if run.over or ends else ended  # of a run that still goes on
        first, last = max(started, first), min(ended, max(started, last))
        spans += [("until the first step", started, first), ("training", first, last)]
        spans.append(("after the last step", last, ended))
    spans.append(("end", ended, ended_at))
    spans += silent
    spans += [("stall", since, min(until or ended_at, ended_at)) for since, until in record.stalls]
    return [span for span in spans if span[2] > span[1]]
