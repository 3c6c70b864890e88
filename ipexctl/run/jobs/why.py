"""why: explain what the ranks of a run do now, or did when it stalled; what its steps wait for."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ipexctl.common.run_answers import WhyAnswer
from ipexctl.errors import EXIT_FAILED, EXIT_OK, InputError, IpexctlError, worst_exit
from ipexctl.machines.fleet import Fleet
from ipexctl.machines.suggested_commands import suggest_command
from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.hang.diagnosis import diagnose_run
from ipexctl.run.hang.hang_report import (
    Diagnosis,
    Situation,
    situation_from_journals,
    situation_from_looks,
)
from ipexctl.run.jobs.logs import Wanted, read_host_logs
from ipexctl.run.jobs.metrics import MetricReader, measure_rank_speed
from ipexctl.run.jobs.ps import (
    NEWEST,
    AskedRun,
    ask_run_hosts,
    find_run_of_anybody,
    map_reporting_hosts,
    name_runs_before_it,
    reread_attempt,
)
from ipexctl.run.jobs.start_again import compose_again_line
from ipexctl.run.outcome.host_reports import read_ends
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.outcome.run_state import Phase
from ipexctl.run.output.rank_lines import Span
from ipexctl.run.pace import slow_steps
from ipexctl.run.pace.rank_pace import pace_of
from ipexctl.run.pace.run_speed import Speed
from ipexctl.run.pace.slow_steps import SlowSteps
from ipexctl.run.plan import shown_plan
from ipexctl.run.plan.launch import LaunchPlan

LAST_LOOK, EVERY = 3.0, 0.25  # seconds until the hosts of a run that ends have looked
QUIET, LONG_STEP = 5.0, 3  # seconds, and usual steps, without progress that may be a stall
LAST_LINES = 20_000  # last lines of a rank, for its speed: all of them in most runs


@dataclass(frozen=True)
class Why(AskedRun):
    """The answer. `situation` None: there is no evidence of what the ranks do, or the run ended
    without having stalled."""

    seconds: float  # that the look took
    situation: Situation | None = None
    diagnosis: Diagnosis | None = None
    computes: bool = False  # a rank uses its CPUs for more than waiting
    steps: SlowSteps | None = None  # None: it is stalled, or nothing is known of its ranks
    speed: Speed | None = None  # None: the same, or its output does not say it
    again: str = ""  # the command that starts it again, if it has failed
    waits: str = ""  # for what a queued run waits, with names of runs

    @property
    def is_stalled(self) -> bool:
        waits = self.diagnosis is not None and self.diagnosis.kind.stalls
        return waits and not self.computes

    @property
    def is_unknown(self) -> bool:
        idle = self.run.state.has_no_ranks or self.run.all_ok  # no rank runs then
        return self.situation is None and not self.run.over and not idle

    @property
    def exit_code(self) -> int:
        failed = self.is_stalled or self.is_unknown
        return worst_exit([super().exit_code, EXIT_FAILED if failed else EXIT_OK])


def explain_run_state(target: Target, text: str, root: str = ROOT) -> Why:
    """Explain what a run waits for, by its journals if it has ended, else by its hosts."""
    with Fleet(target, root) as fleet:
        run = find_run_of_anybody(fleet, text, newest=NEWEST)
        began = time.monotonic()
        answers = ask_run_hosts(fleet, run, "run.run_list.why", WhyAnswer)
        run = _reread_run(fleet, run)
        diagnosis = (
            _diagnose_from_journals(run)
            if run.over or run.verdict
            else _diagnose_now(fleet, answers, run, began)
        )
        seconds = time.monotonic() - began
        why = Why(run, fleet.recaps(), len(fleet.alive), seconds, *(diagnosis or ()))
        waits = name_runs_before_it(fleet, run).state.waits
        why = replace(why, again=compose_again_line(fleet, run), waits=waits)
        if why.is_stalled or why.is_unknown:
            return why
        return replace(why, **_judge_steps(fleet, run, answers))


def _reread_run(fleet: Fleet, run: ListedRun) -> ListedRun:
    """Return the run as it is now. While it is being stopped, wait until its hosts have looked at
    the ranks for the last time: what ranks do once they are told to end does not count."""
    began = time.monotonic()
    while True:
        run = reread_attempt(fleet, run.id) or run
        waits = run.phase is Phase.STOPPING and run.stall is None
        if not waits or time.monotonic() - began > LAST_LOOK:
            return run
        time.sleep(EVERY)


def _read_first_plan(answers: Mapping[str, WhyAnswer], run: ListedRun) -> LaunchPlan | None:
    return next(
        (p for a in answers.values() if (p := shown_plan.read_shown_plan(a.plan, run.id))), None
    )


def _judge_steps(fleet: Fleet, run: ListedRun, answers: Mapping[str, WhyAnswer]) -> dict[str, Any]:
    """Return the `speed` of a run, and what its `steps` wait for, as far as that is known."""
    plan = _read_first_plan(answers, run)
    if plan is None:
        return {}
    speed = _measure_speed(fleet, run, plan)
    paces = [pace_of(name, answer.pace) for name, answer in answers.items()]
    if not any(pace.ranks for pace in paces):
        return {"speed": speed}
    steps = slow_steps.judge_slow_steps(plan, paces, speed, run.about.command)
    steps = steps.spelled(lambda name: suggest_command(fleet.target, name, fleet.root))
    return {"speed": speed, "steps": steps}


def _measure_speed(fleet: Fleet, run: ListedRun, plan: LaunchPlan) -> Speed | None:
    """Measure it as `report` does, by the lines of the first rank; None if they do not have it or
    the host cannot be reached."""
    name, rank = plan.hosts[0].host, plan.hosts[0].ranks[0].rank
    host = map_reporting_hosts(fleet, run).get(name)
    if host is None:
        return None
    reader = MetricReader(named=True)

    def shown(rank: int, texts: Sequence[str], state: str, span: Span | None) -> None:
        reader.set_time(rank, span)
        reader.add_lines(run, name, rank, texts)

    wanted = Wanted(run.id, (rank,), LAST_LINES, bars=True)
    try:
        read_host_logs(fleet, host, name=name, run=run.id, wanted=wanted, shown=shown, times=True)
    except IpexctlError:
        return None
    return measure_rank_speed(reader.points)


def _diagnose_from_journals(run: ListedRun) -> tuple[Situation, Diagnosis] | None:
    """Diagnose from the journals a run that has ended, or is ending."""
    if run.stall is None:
        return None
    situation = situation_from_journals(run)
    return situation, diagnose_run(situation)


def _diagnose_now(
    fleet: Fleet, answers: Mapping[str, WhyAnswer], run: ListedRun, began: float
) -> tuple[Situation, Diagnosis, bool] | None:
    """Diagnose an active run from the looks of all hosts."""
    plan = _read_first_plan(answers, run)
    if plan is None and not run.state.has_no_ranks:
        raise InputError(
            f"{run.id} has not started its ranks", hint="ipexctl ps", slug="run-not-begun"
        )
    looks = {name: answer.look for name, answer in answers.items() if answer.look}
    if plan is None or not looks:
        return None
    quiet = min(answers[name].quiet for name in looks)
    speed = _measure_speed(fleet, run, plan) if quiet >= QUIET else None
    limit = max(QUIET, LONG_STEP / speed.rate) if speed else QUIET
    alive = {name for name, answer in answers.items() if answer.alive}
    waited = time.monotonic() - began
    hosts = answers.keys() | {host.name for host in fleet.hosts.hosts}  # not those that -l left out
    silent = [(host.host, waited) for host in plan.hosts if host.host in hosts - alive]
    ends = {end.rank: end.short for answer in answers.values() for end in read_ends(answer.ends)}
    situation = situation_from_looks(
        plan, looks, ends, quiet if quiet >= limit else None, silent, run.cut
    )
    computes = any(answer.computes for answer in answers.values())
    return situation, diagnose_run(situation), computes
