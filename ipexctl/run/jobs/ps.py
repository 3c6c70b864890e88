"""ps, stop, wait and rm: list and control the runs on these hosts, by their journals there."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ipexctl.base.host_answer import Answer, Odd, as_type
from ipexctl.base.host_outcome import HostDown, HostResult, HostState, PerHost
from ipexctl.base.values import plain
from ipexctl.common.attempt_record import KeeperAnswer, KeeperQuestion
from ipexctl.common.message import Message
from ipexctl.common.root_paths import ATTEMPT
from ipexctl.common.run_answers import RunRow
from ipexctl.errors import EXIT_FAILED, EXIT_OK, InputError, Unreachable, worst_exit
from ipexctl.explain.known_failures import known_failures
from ipexctl.facts.other_runs_facts import LiveRun
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host
from ipexctl.local.project_lock import project_of, project_top
from ipexctl.machines.agent_start import AHEAD, Ahead
from ipexctl.machines.fleet import Fleet, fan_out
from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.jobs.lost_keepers import restore_keepers
from ipexctl.run.jobs.run_filter import read_filter
from ipexctl.run.outcome import listed_runs
from ipexctl.run.outcome.host_reports import RunOnHost, read_on_host
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.outcome.run_choice import Caller, choose_run, describe_foreign, describe_run
from ipexctl.run.outcome.run_state import Phase, RunState
from ipexctl.run.outcome.verdict import Verdict
from ipexctl.run.watch import run_format

SOON, EVERY = 0.05, 0.5  # seconds between two looks: the first, and the longest
END_WAIT = 30.0  # seconds in addition to those that the ranks get
NOTED_WAIT = 10.0  # seconds for the last records of a run in its journals
REACH = 30.0  # seconds without a decision, until hosts that did not answer are asked again
AWAY = 60.0  # seconds in which a host whose connection ended may be reached again
_T = TypeVar("_T")
_ONLY_HERE = "no hosts are given (-f, -H), so only this machine was searched"
NEWEST = 20  # ended runs that a host lists unless asked for all


@dataclass(frozen=True)
class Runs(PerHost):
    """Listed runs. `recaps`: of hosts not reached. `other_users`: (host, run) of other users.
    `ids`: of all runs that the hosts named, also those that are not listed."""

    runs: tuple[ListedRun, ...]
    recaps: tuple[HostResult, ...]
    answered: int  # hosts
    other_users: tuple[tuple[str, LiveRun], ...] = ()
    caller: Caller = Caller("", Path())
    ids: frozenset[str] = frozenset()


class OfOneRun(PerHost):
    """An answer about one run: a host that has no part of it and was not reached is no failure."""

    run: ListedRun

    @property
    def exit_code(self) -> int:
        codes = [r.state.exit_code for r in self.recaps if self.run.concerns(r.host)]
        return worst_exit([*codes, EXIT_FAILED if self.declined else EXIT_OK])


@dataclass(frozen=True)
class AskedRun(OfOneRun):
    """A run, and the hosts that were asked about it. `recaps`: of those that could not be asked."""

    run: ListedRun
    recaps: tuple[HostResult, ...]
    answered: int  # hosts


@dataclass(frozen=True)
class Stopped(AskedRun):
    was_over: bool = False  # on its own, before it was stopped
    declined: bool = False
    owner: str = ""  # user@machine, of another person's

    @property
    def exit_code(self) -> int:
        own_code = EXIT_OK if self.run.over or self.declined else EXIT_FAILED
        return worst_exit([super().exit_code, own_code])


def read_caller() -> Caller:
    """Return who types this command, in the project of the current folder."""
    here = Path.cwd()
    return Caller(project_of(here).by, project_top(here))


def find_run(
    fleet: Fleet,
    text: str,
    *,
    newest: int = 0,
    sizes: bool = False,
    removes: bool = False,
    says_whose: bool = False,
) -> ListedRun:
    """Return the run that `text` names; hosts are asked for all runs if none of the newest is the
    caller's. `removes`: as for choose_run; `says_whose`: as find_run_of_anybody. Raise Unreachable
    if a host not asked may have it."""
    runs, caller = gather_runs(fleet, newest=newest, sizes=sizes), read_caller()
    try:
        run = choose_run(runs, text, caller, removes=removes)
        if newest and not (caller.owns(run) or run.id.startswith(text)):
            # an older one with this name may be theirs
            return find_run(fleet, text, sizes=sizes, says_whose=says_whose)
        if says_whose and run.about.by and not caller.has_started(run):
            fleet.target.note(describe_foreign(run))
        if note := run_format.describe_version(run):
            fleet.target.note(note)
        if text == run.about.asked:
            fleet.target.note(f"{describe_run(run)} was to be called {text}")
        if not newest and (without := run.removed_from(host.name for host in fleet.alive)):
            where = f"pruned or removed on {fold(without)}, with its output"
            fleet.target.note(f"{run.name_or_id} was {where}")
        return run
    except InputError as e:
        if newest:
            return find_run(fleet, text, sizes=sizes, says_whose=says_whose)
        if not fleet.failures:
            e.why = e.why or _name_other_accounts(fleet)
            if e.why or not _is_only_local(fleet):
                raise
            hint = "add -f HOSTFILE, or run it in your project's folder (with ipexctl.toml)"
            raise InputError(e.what, why=_ONLY_HERE, hint=hint, slug=e.slug) from None
        down = next(iter(fleet.downs.values()))
        raise Unreachable(
            f"{fold(down.host for down in fleet.failures)} did not answer; {e.what}",
            why=down.what,
            hint=down.hint,
            slug="run-host-unreachable",
        ).with_meant(*down.meant, at=down.meant_at) from None


def find_run_of_anybody(fleet: Fleet, text: str, *, newest: int = 0) -> ListedRun:
    """Return the run that `text` names; the first note says whose it is if another person started
    it."""
    return find_run(fleet, text, newest=newest, says_whose=True)


def _is_only_local(fleet: Fleet) -> bool:
    """Return whether only this machine was asked, because no hosts are given."""
    return not fleet.target.hostfile and not fleet.target.hosts


def list_runs(
    target: Target, root: str = ROOT, *, every: bool = False, states: str = "", since: str = ""
) -> Runs:
    """List runs. `every`: include runs that have ended, and all sizes. `states` (separated by
    commas) and `since` choose among all runs."""
    now = time.time()
    chosen = read_filter(states, since, now)
    with_ended = bool(every or states or since)
    with Fleet(target, root) as fleet:
        newest = 0 if with_ended else 1
        gathered = gather_runs(fleet, newest=newest, sizes=every)
        if settle_queued_runs(fleet, gathered):
            gathered = gather_runs(fleet, newest=newest, sizes=every)
        for run in gathered:
            restore_keepers(fleet, run)
        runs = tuple(
            run for run in gathered if (with_ended or not run.over) and chosen.keeps(run, now)
        )
        for note in filter(None, map(run_format.describe_version, runs)):
            target.note(note)
        other_users = _list_other_users(fleet)
        if not runs and _is_only_local(fleet):
            target.note(_ONLY_HERE)
        ids = frozenset(run.first_id for run in gathered)
        return Runs(runs, fleet.recaps(), len(fleet.alive), other_users, read_caller(), ids)


def settle_queued_runs(fleet: Fleet, runs: Sequence[ListedRun]) -> bool:
    """Start keepers of queued runs again where they have ended, in the order of the queue; return
    whether there are any. `runs`: the newest first."""
    by_name, found = {host.name: host for host in fleet.alive}, False
    for run in reversed(runs):
        waits = may_wait_again(run)
        asleep = {
            by_name[report.target]: report
            for report in (run.seen if waits or run.over else ())
            if report.row.asleep and report.target in by_name
        }
        settle = partial(_settle_queued_run, fleet, asleep, wakes=waits)
        settled = fan_out(list(asleep), settle)
        found = found or bool(asleep)
        woken = [host.name for host, down in settled.items() if waits and down is None]
        if woken:
            where = f"on {fold(woken)}, where its keepers had ended"
            fleet.target.note(f"{run.name_or_id} waits again {where}")
    return found


def may_wait_again(run: ListedRun) -> bool:
    """Return whether a queued run may be woken: one of its hosts that is not asked may know that it
    was stopped, so all have to say that it waits, or most if it does not need all of them."""
    seen = {report.host for report in run.seen} & {*run.about.hosts}
    most = run.about.any_of > 0 and 2 * len(seen) > len(run.about.hosts)
    return run.queued and (most or len(seen) == len(run.about.hosts))


def _settle_queued_run(
    fleet: Fleet, asleep: Mapping[Host, RunOnHost], host: Host, *, wakes: bool
) -> None:
    report = asleep[host]
    if not wakes:
        op = "restart.attempts.forget"
        fleet.call(host, op, known_as=report.host, run_id=report.run, by="")
        return
    request = {"root": fleet.root_of(host), "known_as": report.host, "run_id": report.run}
    record = Ahead("restart.attempts.record", request, fork="restart.attempts.begin")
    fleet.reconnect(host, ahead=[record]).wait(AHEAD)
    fleet.agents[host].call("restart.attempts.wake", request)


def _list_other_users(fleet: Fleet) -> tuple[tuple[str, LiveRun], ...]:
    def one(host: Host) -> tuple[LiveRun, ...]:
        return fleet.call(host, "facts.read_other_runs.list").rows("runs", LiveRun)

    by_host = fleet.map_hosts(one).items()
    return tuple((host.name, run) for host, runs in by_host for run in runs if not run.own)


def _name_other_accounts(fleet: Fleet) -> str:
    """Return that other accounts of the hosts run something, "" if none does."""
    hosts: dict[str, list[str]] = {}
    for host, run in _list_other_users(fleet):
        hosts.setdefault(run.owner, []).append(host)
    named = [f"{owner} on {fold(dict.fromkeys(on))}" for owner, on in sorted(hosts.items())]
    if not named:
        return ""
    return f"only an account's own runs are listed; there are others: of {', of '.join(named)}"


def stop_run(
    target: Target,
    text: str,
    seconds: float,
    root: str = ROOT,
    agreed: Callable[[ListedRun], bool] = lambda run: True,
) -> Stopped:
    """Send Ctrl-C to the ranks, and kill them after this many seconds. `agreed`: asked before a run
    is stopped that is not the caller's own."""
    caller = read_caller()
    user = caller.by
    with Fleet(target, root) as fleet:
        run = require_answering(fleet, find_run(fleet, text, newest=NEWEST))
        if run.over:
            return Stopped(run, fleet.recaps(), len(fleet.alive), was_over=True)
        if not caller.owns(run) and not agreed(run):
            return Stopped(run, fleet.recaps(), len(fleet.alive), declined=True)

        was = run.state
        keepers = {report.host for report in run.seen if report.row.kept}
        asleep = {report.host for report in run.seen if report.row.asleep}
        if keepers or asleep:
            by = f"{user} (ipexctl stop)"
            ask_run_hosts(fleet, run, "restart.attempts.forget", Message, asleep, by=by)
            ask = KeeperQuestion(stop=user).document()
            op = "restart.attempts.ask"
            ask_run_hosts(fleet, run, op, KeeperAnswer, keepers, run_id=run.first_id, ask=ask)
            run = _reread_run(fleet, run)  # another attempt may have begun meanwhile
        ask_run_hosts(fleet, run, "run.run_list.stop", Message, run.alive, by=user, seconds=seconds)
        run = wait_until_over(fleet, run, seconds + END_WAIT)
        ended = run.over and run.phase is not Phase.STOPPED and not was.has_no_ranks
        owner = "" if caller.has_started(run) else run.about.by
        return Stopped(run, fleet.recaps(), len(fleet.alive), was_over=ended, owner=owner)


def ask_run_hosts(
    fleet: Fleet,
    run: ListedRun,
    operation: str,
    kind: type[_T],
    only: Collection[str] | None = None,
    **fields: Any,
) -> dict[str, _T]:
    """Call an operation on the hosts that reported the run, or `only` on these; return the answers,
    of this kind, by the hosts' names in it."""
    hosts = map_reporting_hosts(fleet, run).items()
    names = {host: name for name, host in hosts if only is None or name in only}

    def ask(host: Host) -> _T:
        request = {"run_id": run.id, "known_as": names[host], **fields}
        return fleet.call(host, operation, **request).read(kind)

    return {names[host]: answer for host, answer in fleet.map_hosts(ask, list(names)).items()}


def map_reporting_hosts(fleet: Fleet, run: ListedRun) -> dict[str, Host]:
    """Return the hosts that reported the run, by their names in it."""
    alive = {host.name: host for host in fleet.alive}
    return {report.host: alive[report.target] for report in run.seen if report.target in alive}


@dataclass(frozen=True)
class Gone(OfOneRun):
    """The result of `rm`. `removed` False: only shown, or declined."""

    run: ListedRun
    recaps: tuple[HostResult, ...]
    removed: bool
    declined: bool = False


def remove_run(
    target: Target, text: str, agreed: Callable[[ListedRun], bool] | None, root: str = ROOT
) -> Gone:
    """Remove an ended run, with its results. `agreed` None: only show it."""
    from ipexctl.common.removal_answers import RunRemoved  # late: the other commands need it not

    with Fleet(target, root) as fleet:
        run = require_answering(fleet, find_run(fleet, text, sizes=True, removes=True))
        if not run.over:
            caller, by = read_caller(), run.about.by
            is_theirs = by and not caller.has_started(run)
            raise InputError(
                f"{run.id} is {run.phase.value}",
                why="" if caller.owns(run) else describe_foreign(run),
                hint=f"ipexctl wait {run.id}   # or ask {by}"
                if is_theirs
                else f"ipexctl stop {run.id}",
                slug="run-active",
            )
        if agreed is None or not agreed(run):
            return Gone(run, fleet.recaps(), removed=False, declined=agreed is not None)

        def one(host: Host) -> HostResult:
            answer = fleet.call(host, "remove.prune_rules.remove_run", run_id=run.id)
            if answer.read(RunRemoved).removed:
                return HostResult(host.name, HostState.CHANGED, "removed")
            return HostResult(host.name, HostState.OK, "nothing to remove")

        return Gone(run, fleet.recaps(fleet.map_hosts(one)), removed=True)


def _find_unanswering(fleet: Fleet, run: ListedRun) -> list[HostDown]:
    """Return hosts of the run that do not answer, unless another host knows how it ended."""
    return [down for down in fleet.failures if run.state.may_go_on and run.concerns(down.host)]


def require_answering(fleet: Fleet, run: ListedRun) -> ListedRun:
    """Return the run. Raise Unreachable if a host where it may still run does not answer."""
    if downs := _find_unanswering(fleet, run):
        raise Unreachable(
            f"{fold(d.host for d in downs)} did not answer; {run.id} may still be running there",
            why=downs[0].what,
            hint=downs[0].hint,
            slug="run-host-unreachable",
        )
    return run


def wait_until_over(
    fleet: Fleet, run: ListedRun, seconds: float | None = None, *, or_started: bool = False
) -> ListedRun:
    """Return the run when it has ended, or after this time; with `or_started`, also when it has
    started ranks."""
    began = tried = time.monotonic()
    pause = SOON
    while not (run.over or (or_started and run.started)) and (
        seconds is None or time.monotonic() - began < seconds
    ):
        time.sleep(pause)
        if run.state.has_no_ranks and time.monotonic() - tried > REACH:
            _forget_downs(fleet, run)  # the hosts that answer may be the minority
            tried = time.monotonic()
        run, pause = _reread_run(fleet, run), min(2 * pause, EVERY)
    return run


def _forget_downs(fleet: Fleet, run: ListedRun) -> None:
    """Ask hosts of the run that did not answer once more."""
    for host in list(fleet.downs):
        if host.name in (*run.about.hosts, *run.targets):
            del fleet.downs[host]
            if host in fleet.agents:
                fleet.disconnect(host)


def _reread_run(fleet: Fleet, run: ListedRun) -> ListedRun:
    """Return the last attempt as it is now. Raise Unreachable if hosts of it stay out of reach."""
    began = time.monotonic()
    while True:
        runs = gather_runs(fleet, only=run.first_id)
        attempt = runs[0] if runs else replace(run, state=RunState(Phase.LOST))
        if not _find_unanswering(fleet, attempt):
            break
        if time.monotonic() - began > AWAY:
            return require_answering(fleet, attempt)
        time.sleep(EVERY)
        _forget_downs(fleet, run)
    if not runs:
        raise InputError(
            f"{run.id} was removed from its hosts", hint="ipexctl ps -a", slug="run-removed"
        )
    return attempt


def make_verdict_reader(
    fleet: Fleet, run_id: str, by_name: Mapping[str, Host]
) -> Callable[..., Verdict | None]:
    """Return a function that reads how the run ended from the journals of the named hosts, once
    these are complete; `wait` reads the same. `afresh`: a host to ask over a new connection, as
    the old one may still be read."""

    def ask(names: Sequence[str], afresh: str = "") -> Verdict | None:
        if afresh in by_name and (agent := fleet.agents.pop(by_name[afresh], None)):
            agent.close()
        began, hosts = time.monotonic(), [by_name[name] for name in names if name in by_name]
        while True:
            run = reread_attempt(fleet, run_id, hosts)
            ended = not run or run.over or run.state.has_no_ranks
            if ended or time.monotonic() - began > NOTED_WAIT:
                return run.verdict if run else None
            time.sleep(EVERY)

    return ask


def name_runs_before_it(
    fleet: Fleet, run: ListedRun, hosts: Sequence[Host] | None = None
) -> ListedRun:
    """Return a run that says for which runs it waits by their names, as `ps` does. `hosts`: as for
    gather_runs."""
    if not (run.queued and run.state.waits):
        return run
    runs = gather_runs(fleet, newest=1, hosts=hosts)
    return next((other for other in runs if other.id == run.id and other.queued), run).naming(runs)


def reread_attempt(
    fleet: Fleet, run_id: str, hosts: Sequence[Host] | None = None
) -> ListedRun | None:
    """Return one attempt of a run. All are asked for: the record of the run decides only how the
    last one ended."""
    attempts = gather_runs(fleet, only=ATTEMPT.sub("", run_id), hosts=hosts)
    return next((run for run in attempts if run.id == run_id), None)


def read_listed_rows(answer: Answer, host: str, note: Callable[[str], object]) -> Iterator[RunRow]:
    """Yield what a host says of each run. What is not valid is unknown, and noted: another host of
    that run may have said it, and it must not hide other runs."""
    for row in answer.value("runs", tuple[dict[str, Any], ...]):
        try:
            yield as_type(RunRow, row)
        except Odd as e:
            (known,) = Answer(host, {"runs": [row]}).rows("runs", RunRow)
            if not known.run:
                raise answer.invalid_reply(f"'runs'{e}") from None
            note(
                f"{host}: part of what it recorded of {plain(known.run)} is not valid, and left out"
            )
            yield known


def gather_runs(
    fleet: Fleet,
    *,
    only: str = "",
    newest: int = 0,
    sizes: bool = False,
    hosts: Sequence[Host] | None = None,
) -> tuple[ListedRun, ...]:
    """Return the runs that the hosts know, each with what each host saw. `newest`: number of ended
    runs, 0 for all. `hosts`: ask only these, which have answered before."""

    def ask(host: Host) -> Answer:
        op = "run.run_list.list"
        return fleet.call(host, op, known_as=host.name, only=only, newest=newest, sizes=sizes)

    def one(host: Host) -> Sequence[RunOnHost]:
        fresh = host not in fleet.agents
        if fresh:
            fleet.connect(host)
        try:
            done = ask(host)
        except Unreachable:
            if fresh:
                raise
            fleet.reconnect(host)
            done = ask(host)
        rows = read_listed_rows(done, host.name, fleet.target.note)
        return [read_on_host(host.name, row, known_failures) for row in rows]

    reports = fleet.map_hosts(one, hosts).values()
    runs = listed_runs.merge_runs(report for rows in reports for report in rows)
    return _with_later_ends(fleet, runs, hosts) if newest else runs


def _with_later_ends(
    fleet: Fleet, runs: tuple[ListedRun, ...], hosts: Sequence[Host] | None
) -> tuple[ListedRun, ...]:
    """Return the runs, of which those that wait to be started again are known as all hosts know
    them: one that was cut off may wait, while for others the run has long ended, and is not among
    the newest of these."""
    asked = [host.name for host in fleet.alive]
    unsure = {
        run.first_id for run in runs if run.phase is Phase.RESTARTING and run.unseen_on(asked)
    }
    again = {first_id: gather_runs(fleet, only=first_id, hosts=hosts) for first_id in unsure}
    if not again:
        return runs
    sure = [run for run in runs if run.first_id not in again]
    found = [*sure, *(run for attempts in again.values() for run in attempts)]
    return tuple(sorted(found, key=lambda run: run.id, reverse=True))
