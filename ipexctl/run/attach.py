"""attach: watch a run that has begun, from any machine that reaches its hosts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from ipexctl.base.option import Seconds
from ipexctl.errors import HostFailed, Unreachable
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.suggested_commands import command
from ipexctl.machines.target import Target
from ipexctl.run.jobs.logs import kept_elsewhere
from ipexctl.run.jobs.ps import NEWEST, find, noted, reached
from ipexctl.run.outcome.listed_runs import Run
from ipexctl.run.outcome.run_result import Left, RunResult
from ipexctl.run.plan import shown_plan
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.run.plan.run_options import RunOptions
from ipexctl.run.watch.host_link import HostLinks, WatchedRun
from ipexctl.run.watch.run_folder import Records
from ipexctl.run.watch.run_format import require_same
from ipexctl.run.watch.run_notices import tell_left
from ipexctl.run.watch.run_output import RunOutput
from ipexctl.run.watch.run_watchers import Interrupts, Painter
from ipexctl.run.watch.session import Session

KEYS = "Ctrl-C stops the run, Ctrl-\\ leaves it running"


def attach(
    target: Target,
    text: str,
    painter: Painter,
    interrupts: Interrupts,
    root: str,
    records: Records,
) -> RunResult | Left:
    """Everything that the ranks have printed comes first. Ends with the run, or when left."""
    with Fleet(target, root) as fleet:
        run = find(fleet, text, newest=NEWEST)
        return attached(fleet, run, painter, interrupts, records)


def attached(
    fleet: Fleet, run: Run, painter: Painter, interrupts: Interrupts, records: Records
) -> RunResult | Left:
    target, root = fleet.target, fleet.root
    require_same(run)
    known = reached(fleet, run)
    hub = _hub(run, known)
    plan, age, options = _plan(fleet, run, hub, known[hub])
    over = f"{run.id} has ended: {run.state.value}"
    painter.note(over if run.over else f"attached to {run.id}: {KEYS}")
    painter.planned(run.id, plan)
    watched = WatchedRun(plan, run.id, options, hub, attached=True, age=age)
    session = Session(
        watched,
        HostLinks(watched, lambda name: fleet.reconnect(known[name])),
        RunOutput(watched, painter, records.make(run.id, plan)),
        interrupts,
        noted=noted(fleet, run.id, known),
    )
    there = [host.host for host in plan.hosts if host.host in known]
    result = session.attach({name: fleet.agents[known[name]] for name in there})
    if isinstance(result, Left):
        tell_left(painter, result, target, root)
        return result
    if session.missing:
        painter.note(f"the output of {fold(session.missing)} is not complete: not reached")
    for (name, rank), texts in kept_elsewhere(fleet, run, session.missing).items():
        painter.output(name, rank, texts, 0)
    return result.spelled(lambda name: command(target, name, root))


def _hub(run: Run, known: Mapping[str, Host]) -> str:
    """The host that controls the run; of one that is over, any has what that one said."""
    first = next(iter(run.about.hosts), "")
    if first not in known and not (run.over and known):
        raise Unreachable(
            f"{first or 'the first host'} of {run.id} cannot be reached from here",
            why="that host controls the run",
            hint=f"ipexctl logs {run.id} --follow",
            slug="hub-unreachable",
        )
    return first if first in known else next(iter(known))


def _plan(fleet: Fleet, run: Run, name: str, host: Host) -> tuple[LaunchPlan, float, RunOptions]:
    """And the seconds since the run began, or how long it took; of its options what is known."""
    done = fleet.call(host, "run.run_list.plan", journal=name, run_id=run.id)
    plan = shown_plan.read(done["plan"], run.id)
    if plan is None:
        raise HostFailed(f"{name}: no record of {run.id}", slug="run-record-missing")
    options = RunOptions("", root=fleet.root, lives_on=True)
    with suppress(TypeError, ValueError):  # it was begun by an older ipexctl, which did not say it
        options = replace(options, host_timeout=Seconds(done["plan"].get("host_timeout")))
    return plan, run.seconds if run.over else float(done.whole("age")), options
