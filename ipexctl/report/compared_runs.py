"""Reads what two runs kept on their hosts, and compares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from ipexctl.base.host_answer import Answer
from ipexctl.errors import InputError
from ipexctl.inventory.inventory import Host
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.target import ROOT, Target
from ipexctl.report.recorded_inputs import RunRecord, Speed, read_host, read_inputs, speed_of
from ipexctl.report.run_difference import Comparison, compare
from ipexctl.run.jobs.metrics import RankPoint, metrics
from ipexctl.run.jobs.ps import find, reached
from ipexctl.run.outcome.listed_runs import Run
from ipexctl.run.pace.rank_pace import read_pace
from ipexctl.run.plan import shown_plan


def compare_runs(
    target: Target, run_a: str, run_b: str, root: str = ROOT,
    printed: Mapping[str, Sequence[RankPoint]] = MappingProxyType({}),
) -> Comparison:  # fmt: skip
    """What explains the speed of `run_a` against `run_b`: names or ids of runs of these hosts.
    `printed`: what is read already, by id. Raises InputError, Unreachable."""
    with Fleet(target, root) as fleet:
        runs = [find(fleet, text) for text in (run_a, run_b)]
        records = [read_record(fleet, run) for run in runs]
    points = [printed.get(run.id) or metrics(target, run.id, (), root).points for run in runs]
    speeds = [_speed(one) for one in points]
    names = [run.about.name or run.id for run in runs]
    if names[0] == names[1]:
        names = [run.id for run in runs]
    found = zip(records, names, speeds, strict=True)
    one, other = (replace(record, name=n, speed=speed) for record, n, speed in found)
    return compare(one, other)


def read_record(fleet: Fleet, run: Run) -> RunRecord:
    """What the hosts kept of the run when it began. Raises InputError if it never did."""
    names = {host: name for name, host in reached(fleet, run).items()}

    def ask(host: Host) -> Answer:
        return fleet.call(host, "run.run_list.inputs", journal=names[host], run_id=run.id)

    said = {names[host]: answer for host, answer in fleet.each(ask, list(names)).items()}
    plan = next((p for a in said.values() if (p := shown_plan.read(a["plan"], run.id))), None)
    if plan is None:
        raise InputError(
            f"{run.id} has not started its ranks", hint="ipexctl ps -a", slug="run-not-begun"
        )
    kept = {name: a["inputs"] for name, a in said.items() if isinstance(a["inputs"], Mapping)}
    return RunRecord(
        run.id,
        plan,
        {name: read_host(raw) for name, raw in kept.items()},
        {name: read_pace(name, a["whole"]) for name, a in said.items() if a["whole"]},
        next(filter(None, map(read_inputs, kept.values())), None),
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
