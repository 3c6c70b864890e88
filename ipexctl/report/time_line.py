"""The phases of a run on each host: bars along one axis of seconds.

Each host's times are by its own clock, from where the run began there: that is the same moment on
all hosts, within what the start takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ipexctl.report.curves import Point, short
from ipexctl.report.host_record import HostRecord
from ipexctl.run.outcome.listed_runs import Run

BEFORE = {"hosts": "connect", "plan": "plan", "preflight": "preflight", "sync": "sync"}
Shown = tuple[Run, Sequence[HostRecord], Mapping[int, Sequence[Point]]]
Span = tuple[str, float, float]  # phase, from, to


def document(attempts: Sequence[Shown]) -> dict[str, Any]:
    """`attempts`: each with its hosts and the (time, step) of its ranks."""
    lanes: dict[str, list[Span]] = {}
    zero = {record.host: record.began for record in attempts[0][1]} if attempts else {}
    for number, (run, records, steps) in enumerate(attempts, 1):
        offsets = [r.began - zero[r.host] for r in records if r.host in zero]
        offset = max(0.0, min(offsets, default=0.0)) if number > 1 else 0.0
        for record in records:
            spans = before(record) if number == 1 else []
            spans += [(kind, a + offset, b + offset) for kind, a, b in phases(run, record, steps)]
            lanes.setdefault(record.host, []).extend(spans)
        _gap(lanes, records, offset)
    every = [span for spans in lanes.values() for span in spans]
    first = min((a for _, a, _ in every), default=0.0)
    return {
        "from": short(first),
        "to": short(max((b for _, _, b in every), default=0.0)),
        "lanes": [
            {"host": host, "spans": [[kind, short(a), short(b)] for kind, a, b in spans]}
            for host, spans in lanes.items()
        ],
    }


def before(record: HostRecord) -> list[Span]:
    """What the command did until the run began: one after the other."""
    took = dict(record.before)
    rows = [(phase, took[name]) for name, phase in BEFORE.items() if took.get(name)]
    at, found = -sum(seconds for _, seconds in rows), list[Span]()
    for phase, seconds in rows:
        found.append((phase, at, at + seconds))
        at += seconds
    return found


def phases(run: Run, record: HostRecord, steps: Mapping[int, Sequence[Point]]) -> list[Span]:
    """Launch, import until the first printed step, training, end; stalls lie over them."""
    ranks = {one.rank for sample in record.samples for one in sample.ranks}
    ranks |= _planned(record)
    starts = [at for rank, at in record.starts if rank in ranks or not ranks]
    ends = [at for rank, at, _ in record.ends if rank in ranks or not ranks]
    over = record.over if record.over is not None else max(run.seconds, *ends, 0.0)
    if not starts:
        return [("launch", 0.0, over)]
    begun, ended = max(starts), max(ends, default=over)
    own = [points for rank, points in steps.items() if rank in ranks and points]
    own = own or [points for points in steps.values() if points]  # rank 0 alone prints
    first = min((points[0][0] for points in own), default=None)
    last = max((points[-1][0] for points in own), default=None)
    found = [("launch", 0.0, begun)]
    if first is None or last is None:
        found.append(("ranks run", begun, ended))
    else:
        last = last if run.over or ends else ended  # of a run that goes on
        first, last = max(begun, first), min(ended, max(begun, last))
        found += [("until the first step", begun, first), ("training", first, last)]
        found.append(("after the last step", last, ended))
    found.append(("end", ended, over))
    found += [("stall", since, until or over) for since, until in record.stalls]
    return [span for span in found if span[2] > span[1]]


def _planned(record: HostRecord) -> set[int]:
    hosts = record.plan.get("hosts") if isinstance(record.plan, dict) else None
    own = [h for h in hosts or () if isinstance(h, dict) and h.get("name") == record.host]
    rows = own[0].get("ranks") if own else None
    return {row[0] for row in rows or () if isinstance(row, list) and row and type(row[0]) is int}


def _gap(lanes: Mapping[str, list[Span]], records: Sequence[HostRecord], offset: float) -> None:
    """Between two attempts the hosts restart."""
    for record in records if offset else ():
        spans = lanes[record.host]
        until = max((b for _, _, b in spans if b <= offset), default=None)
        if until is not None and offset > until:
            spans.append(("restart", until, offset))
