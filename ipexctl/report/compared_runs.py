"""Compares two runs by what their hosts kept and what their ranks printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ipexctl.errors import InputError
from ipexctl.report.recorded_inputs import RunRecord, Speed, read_host, read_inputs, speed_of
from ipexctl.report.report_material import Attempt
from ipexctl.report.run_difference import Comparison, compare
from ipexctl.run.jobs.metrics import RankPoint
from ipexctl.run.pace.rank_pace import read_pace


def compared(
    one: Attempt, other: Attempt, printed: Mapping[str, Sequence[RankPoint]]
) -> Comparison:
    """`printed`: by the id of each run. Raises InputError if one never began."""
    names = [attempt.run.about.name or attempt.run.id for attempt in (one, other)]
    if names[0] == names[1]:
        names = [one.run.id, other.run.id]
    found = []
    for attempt, name in zip((one, other), names, strict=True):
        record = run_record(attempt, name, printed[attempt.run.id])
        if record is None:
            raise InputError(
                f"{attempt.run.id} has not started its ranks",
                hint="ipexctl ps -a",
                slug="run-not-begun",
            )
        found.append(record)
    return compare(*found)


def run_record(
    attempt: Attempt, name: str = "", points: Sequence[RankPoint] = ()
) -> RunRecord | None:
    """What the hosts kept of the run when it began. None if it never did."""
    if attempt.plan is None:
        return None
    kept = {one.host: one.inputs for one in attempt.records if one.inputs is not None}
    return RunRecord(
        name,
        attempt.plan,
        {host: read_host(raw) for host, raw in kept.items()},
        {one.host: read_pace(one.host, one.whole) for one in attempt.records if one.whole},
        next(filter(None, map(read_inputs, kept.values())), None),
        _speed(points),
    )


def _speed(points: Sequence[RankPoint]) -> Speed | None:
    """Of the lowest rank that prints its steps."""
    for rank in sorted({point.rank for point in points}):
        own = [one for one in points if one.rank == rank]
        steps = [(p.time, p.point.step) for p in own if p.time and p.point.step is not None]
        rates = [p.point.rate for p in own if p.point.rate]
        if speed := speed_of([(at, step) for at, step in steps if step is not None], rates):
            return speed
    return None
