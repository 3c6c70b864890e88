"""Follow the attempts of a run with --restarts: its hosts start them, this shows them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import field, replace
from typing import TypeVar

from ipexctl.base.host_outcome import HostDown
from ipexctl.base.option import Seconds
from ipexctl.base.sizes import duration
from ipexctl.common.attempt_record import (
    AttemptBegins,
    AttemptEnded,
    AttemptLines,
    FurtherAttempt,
    KeeperAnswer,
    KeeperQuestion,
    RecordLine,
    RunEnded,
)
from ipexctl.common.run_answers import PlanAnswer
from ipexctl.errors import EXIT_INTERRUPTED, HostFailed, IpexctlError, RunFailed, Unreachable
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host
from ipexctl.local.run_options import RunOptions
from ipexctl.local.settings import load_settings
from ipexctl.machines.fleet import Fleet, fan_out
from ipexctl.machines.suggested_commands import spell_hint, suggest_command
from ipexctl.machines.target import ROOT, Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.jobs.logs import read_kept_tails
from ipexctl.run.jobs.lost_keepers import ANSWER, ask_keeper, lacks_keeper, start_keeper
from ipexctl.run.jobs.ps import (
    NEWEST,
    SOON,
    find_run,
    gather_runs,
    make_verdict_reader,
    map_reporting_hosts,
    name_runs_before_it,
    read_caller,
    settle_queued_runs,
)
from ipexctl.run.jobs.start_again import compose_again_line_of
from ipexctl.run.outcome import verdict
from ipexctl.run.outcome.listed_checkpoints import (
    describe_incomplete,
    describe_skipped,
    explain_beginning,
)
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.outcome.run_choice import describe_foreign
from ipexctl.run.outcome.run_result import DetachedRun, RunResult
from ipexctl.run.outcome.run_state import describe_unbegun, shorten_end
from ipexctl.run.output.metric_lines import LineReader
from ipexctl.run.plan import shown_plan
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.run.prepare_hosts import EXIT_NOT_STARTED
from ipexctl.run.watch.event_notifier import EventNotifier
from ipexctl.run.watch.host_link import HostLinks, WatchedRun
from ipexctl.run.watch.metric_formats import metric_formats
from ipexctl.run.watch.run_folder import AttemptFolders
from ipexctl.run.watch.run_format import require_same_format
from ipexctl.run.watch.run_notices import note_detached_run
from ipexctl.run.watch.run_output import RunOutput
from ipexctl.run.watch.run_watchers import Interrupts, Painter, View
from ipexctl.run.watch.session import Session

_T = TypeVar("_T")
LOOK = 1.0  # seconds between two questions
SHOWS = 60.0  # seconds for a new attempt to become visible
SILENT = 120.0  # seconds without an answer of any host
WAITS = 5.0  # seconds without an attempt, until hosts are asked what they wait for
REACH = 30.0  # seconds without a decision, until hosts that did not answer are tried again


def describe_attempt(line: AttemptBegins) -> str:
    """Describe an attempt that begins: its hosts, and the checkpoint that it starts from."""
    attempt = f"attempt {line.attempt} on {fold(line.hosts)}"
    if line.checkpoint:
        old = duration(line.age or 0.0)
        more = describe_skipped(line) + describe_incomplete(line)
        return f"{attempt} from {line.checkpoint}, {old} old{more}"
    return attempt + (f" from the beginning: {explain_beginning(line)}" if line.kept else "")


def filter_attempts(record: Iterable[RecordLine]) -> list[AttemptBegins]:
    return [line for line in record if isinstance(line, AttemptBegins)]


def _find_last_attempt(record: Iterable[RecordLine]) -> int:
    return max((line.attempt for line in filter_attempts(record)), default=0)


def describe_attempts(
    attempts: Mapping[int, AttemptBegins], endings: Mapping[int, AttemptEnded]
) -> list[str]:
    """Return a line for each attempt but the last one, if that ran: its result follows."""
    unbegun = [
        FurtherAttempt(number, attempts[number].hosts, ran=False, why=ending.why)
        for number, ending in sorted(endings.items())
        if not ending.ran and number in attempts
    ]
    numbers = {row.attempt for row in unbegun}
    ran = sorted(attempts.keys() - numbers)
    before = ran if max(attempts, default=0) in numbers else ran[:-1]
    lines = [
        f"attempt {number} on {fold(attempts[number].hosts)}: {duration(ending.lasted)}, "
        f"{ending.why}"
        for number in before
        if (ending := endings.get(number))
    ]
    return lines + describe_unbegun(unbegun)


def find_last_step(tails: Iterable[Sequence[str]]) -> int | None:
    """Return the highest step of all ranks, by their last lines."""
    steps = []
    for tail in tails:
        reader = LineReader(metric_formats())
        points = filter(None, map(reader.point, tail))
        steps += [point.step for point in points if point.step is not None]
    return max(steps, default=None)


def attach_and_follow(
    target: Target, text: str, view: View, interrupts: Interrupts, root: str = ROOT
) -> RunResult | DetachedRun:
    """Attach to a run and follow further attempts, too."""
    with Fleet(target, root) as fleet:
        run = find_run(fleet, text, newest=NEWEST)
        settle_queued_runs(fleet, [run])
        painter = Painter(view, target.note)
        caller = read_caller()
        own = caller.owns(run)
        if not own and not (run.over and (caller.has_started(run) or not run.about.by)):
            painter.note(describe_foreign(run))
        if not run.over and not own:
            interrupts.leaving = (*interrupts.leaving, signal.SIGINT)
        notify = None if run.over else load_settings().get("run.notify")
        command = notify.value if notify else ""
        painter.notifier = EventNotifier(target, command, root, run.about.name, painter.note)
        try:
            if run.kept or run.queued or run.later or run.attempt > 1 or run.state.recorded:
                away = set(fleet.downs)
                attempts = Attempts(fleet, run.first_id, painter, interrupts, silent=away)
                with attempts.watch_returned_hosts():
                    queued_result = attempts.follow_queued() if run.queued else None
                    result = queued_result or attempts.follow_from(run.attempt)
            else:
                result = attach_to_run(fleet, run, painter, interrupts, AttemptFolders())
            if isinstance(result, RunResult):
                if result.exit_code and not result.again:
                    again = compose_again_line_of(fleet, run.first_id)
                    result = replace(result, again=again)
                painter.result(result)
            else:
                word = run.about.name if own else ""  # the caller may have a run of this name
                note_detached_run(painter, result, target, root, RunOptions("", name=word))
            return result
        finally:
            painter.close()


@dataclass
class Attempts:
    fleet: Fleet
    run_id: str
    painter: Painter
    interrupts: Interrupts
    busy: Collection[str] = ()  # the hosts of the attempt that is shown
    records: AttemptFolders = field(default_factory=AttemptFolders)
    silent: set[Host] = field(default_factory=set)  # hosts that did not answer
    attempts: dict[int, AttemptBegins] = field(default_factory=dict)  # by number, as far as known
    endings: dict[int, AttemptEnded] = field(default_factory=dict)  # the same
    leaves: bool = False  # -d: a further attempt is not shown
    alive: bool = False  # whether a keeper lives on a host that has answered last

    def watch_returned_hosts(self) -> AbstractContextManager[None]:
        """Make lost hosts that are back spares of the run, until the block ends."""
        target, root = self.fleet.target, self.fleet.root
        hosts = ReturnedHosts(target, root, self.run_id, lambda: self.busy, self._note_return)
        return hosts.watch_in_thread()

    def follow_from(self, number: int) -> RunResult | DetachedRun:
        """Return the result of the last attempt. Raise Unreachable."""
        lines = filter_attempts(line for record in self._read_records() for line in record)
        line = next((row for row in lines if row.attempt == number and row.run_id), None)
        if line and number > 1:
            self.painter.note(f"{line.why}; {describe_attempt(line)}")
        result = self._show_attempt(line) if line else None
        if result is None:
            raise Unreachable(
                f"the hosts of {self.run_id} cannot be reached from here", slug="hub-unreachable"
            )
        return self.follow(result, number)

    def follow(self, result: RunResult | DetachedRun, number: int = 1) -> RunResult | DetachedRun:
        """Return the result of the last attempt; `result`: of the one before."""
        while isinstance(result, RunResult):
            pressed = self.interrupts.count
            line = self._wait_for_next(number, ended_well=result.exit_code == 0)
            if self.interrupts.detach:
                return DetachedRun(self.run_id)
            if not isinstance(line, AttemptBegins):
                for text in describe_attempts(self.attempts, self.endings):
                    self.painter.note(text)
                if line and result.exit_code:
                    result = self._note_end(result, number, line.why)
                returned = [host for host in self.silent if result.is_reachable(host.name)]
                fan_out(returned, self._reconnect_host)
                if self.interrupts.count > pressed or (line and line.by_user):
                    by, cause = verdict.INTERRUPTED, line.why if line else ""
                    result = replace(result, exit_code=EXIT_INTERRUPTED, ended_by=by, cause=cause)
                if line and not line.cut_off and (notifier := self.painter.notifier):
                    notifier.report_end(result, self.run_id, line.by, is_hub=False)
                return result
            step = find_last_step(result.tails)
            position = "" if step is None else f"; the ranks were at step {step:,}"
            self.painter.note(f"{line.why}; {describe_attempt(line)}{position}")
            if notifier := self.painter.notifier:
                event = f"attempt-{line.attempt}", "restarting", line.why
                notifier.report_event(self.run_id, line.by, event)
            if self.leaves:
                return DetachedRun(self.run_id)
            folder = self.records.find_folder(result.run_id).describe_folder()
            self.records.keep_result(replace(result, kept=folder))
            number = line.attempt
            result = self._show_attempt(line) or result
        return result

    def _note_end(self, result: RunResult, number: int, end: str) -> RunResult:
        """Say why no attempt follows. Return the result: if the last attempts did not begin, that
        is the cause."""
        if self._did_not_begin(number):
            return replace(result, cause=end)
        ending = self.endings.get(number)
        self.painter.note(f"no further attempt: {shorten_end(end, ending.why if ending else '')}")
        return result

    def _did_not_begin(self, number: int) -> bool:
        ending = self.endings.get(number)
        return ending is not None and not ending.ran

    def follow_queued(self) -> RunResult | DetachedRun:
        """Wait for the first attempt, and return the result of the last one."""
        if not self.leaves and signal.SIGINT not in self.interrupts.leaving:
            self.painter.note("queued: Ctrl-C takes it out of the queue, Ctrl-\\ leaves it there")
        line = None if self.leaves else self._wait_for_next(0, ended_well=True)
        if self.leaves or self.interrupts.detach:
            return DetachedRun(self.run_id, queued=self._read_queue_text())
        if line is None:
            return DetachedRun(self.run_id, "no host answers")
        if isinstance(line, AttemptBegins):
            result = self._show_attempt(line)
            return self.follow(result) if result else DetachedRun(self.run_id)
        raise RunFailed(
            f"{self.run_id} has left the queue: {line.why}",
            exit_code=EXIT_INTERRUPTED if line.by_user else EXIT_NOT_STARTED,
            slug="run-left-queue",
        )

    def _wait_for_next(self, number: int, *, ended_well: bool) -> AttemptBegins | RunEnded | None:
        """Wait for the next attempt, or the end. Ctrl-C stops the run, as during an attempt."""
        pressed, self.interrupts.armed, self.busy = self.interrupts.count, True, ()
        try:
            return self._poll(number, pressed, noted=ended_well)
        finally:
            self.interrupts.armed = False

    def _poll(self, number: int, pressed: int, *, noted: bool) -> AttemptBegins | RunEnded | None:
        """Ask hosts for the next attempt or the end; None if none knows, or the user leaves."""
        last_answer = last_try = last_question = time.monotonic()
        reason = ""
        end: RunEnded | None = None
        while time.monotonic() - last_answer < SILENT and not self.interrupts.detach:
            if self.interrupts.count > pressed:
                pressed = self.interrupts.count
                question = KeeperQuestion(stop=self.interrupts.last).document()
                self._ask_hosts("ask", KeeperAnswer, ask=question)
            records = self._read_records()
            lines = filter_attempts(line for record in records for line in record)
            furthest = sorted(records, key=_find_last_attempt, reverse=True)
            later = [line for line in lines if line.attempt > number]
            if later:
                return min(later, key=lambda line: line.attempt)
            alive = self.alive
            ended = [end for record in furthest for end in record[-1:] if isinstance(end, RunEnded)]
            if endings := [line for line in ended if not line.cut_off]:
                return endings[0]
            if ended and not alive:  # these hosts were cut off, and the rest goes on
                self._reconnect_silent(first=end is None)
                end = ended[0]
            elif time.monotonic() - last_try > REACH:  # these may be cut off
                fan_out(list(self.silent), self._reconnect_host)
                last_try = time.monotonic()
            if alive and not noted:
                self.painter.note("no rank runs now: the hosts decide how the run goes on")
            if alive:
                noted, last_answer = True, time.monotonic()
                if last_answer - last_question > WAITS:
                    reason, last_question = self._note_waits(reason), time.monotonic()
            time.sleep(LOOK)
        return end

    def _read_records(self) -> list[list[RecordLine]]:
        """Return the record of the run as each host has it."""
        answers = self._ask_hosts("record", AttemptLines)
        self.alive = any(answer.alive for answer in answers)
        records = [answer.lines for answer in answers]
        for line in (line for record in records for line in record):
            if isinstance(line, AttemptBegins):
                self.attempts[line.attempt] = line
            elif isinstance(line, AttemptEnded):
                self.endings[line.attempt] = line
        return records

    def _read_run(self) -> ListedRun | None:
        runs = gather_runs(self.fleet, only=self.run_id, hosts=self._answering_hosts())
        return next(iter(runs), None)

    def _name_runs_before(self, run: ListedRun) -> ListedRun:
        return name_runs_before_it(self.fleet, run, self._answering_hosts())

    def _answering_hosts(self) -> list[Host]:
        return [host for host in self.fleet.agents if host not in self.silent]

    def _read_queue_text(self) -> str:
        """Return the run's place in the queue, or where it has begun. Its keepers have to start,
        and to agree on which of them leads."""
        began, run = time.monotonic(), self._read_run()
        while not (run and (run.state.waits if run.queued else run.alive)):
            if time.monotonic() - began > WAITS:
                break
            time.sleep(SOON)
            run = self._read_run()
        if run and not run.queued and run.alive:
            return f"{run.id} has begun on {fold(run.about.hosts)}"
        if run and run.queued:
            return self._name_runs_before(run).queue_text
        return f"{self.run_id} is queued"

    def _note_waits(self, previous: str) -> str:
        """Return what the hosts wait for, and note it if it has changed."""
        run = self._read_run()
        waits = run.state.waits if run else ""
        if run and waits and waits.partition(" (")[0] != previous.partition(" (")[0]:
            self.painter.note(self._name_runs_before(run).state.waits)
        return waits or previous

    def _ask_hosts(self, operation: str, kind: type[_T], **fields: object) -> list[_T]:
        """Ask the hosts; those that do not answer are not asked again: each would take long."""

        def one(host: Host) -> _T:
            root, agent = self.fleet.root_of(host), self.fleet.agents[host]
            request = {"root": root, "known_as": host.name, "run_id": self.run_id, **fields}
            answer = agent.call(f"restart.attempts.{operation}", request, timeout=ANSWER).done
            return answer.read(kind)

        answers = fan_out([host for host in self.fleet.agents if host not in self.silent], one)
        self.silent |= {host for host, answer in answers.items() if isinstance(answer, HostDown)}
        return [answer for answer in answers.values() if not isinstance(answer, HostDown)]

    def _show_attempt(self, line: AttemptBegins) -> RunResult | DetachedRun | None:
        """Show an attempt; None: it did not begin, or its hosts did not report it in time. Lost
        hosts are not asked."""
        root = self.fleet.root
        target = replace(self.fleet.target, limit=tuple(line.hosts), exclude=())
        deadline, self.busy = time.monotonic() + SHOWS, line.hosts
        while time.monotonic() < deadline and not self._did_not_begin(line.attempt):
            with suppress(IpexctlError), Fleet(target, root) as fleet:
                text = f"{self.run_id}-r{line.attempt:02d}"  # without it, the last one is meant
                run = find_run(fleet, text, newest=NEWEST)  # its journals may not be there yet
                return attach_to_run(
                    fleet, run, self.painter, self.interrupts, self.records, restarts=1
                )
            time.sleep(LOOK)
            self._read_records()
        return None

    def _note_return(self, name: str) -> None:
        self.painter.note(f"{name} is back, for this attempt or the next one")
        self._reconnect_host(next(host for host in self.fleet.hosts.hosts if host.name == name))

    def _reconnect_host(self, host: Host) -> None:
        with suppress(IpexctlError):
            self.fleet.reconnect(host)
            self.silent.discard(host)

    def _reconnect_silent(self, first: bool) -> None:
        fan_out(list(self.silent), self._reconnect_host)
        if first and self.silent:
            names = fold(sorted(host.name for host in self.silent))
            self.painter.note(
                f"{names}: not reached from here; the run may go on there (trying again)"
            )


def attach_to_run(
    fleet: Fleet,
    run: ListedRun,
    painter: Painter,
    interrupts: Interrupts,
    records: AttemptFolders,
    restarts: int = 0,
) -> RunResult | DetachedRun:
    """Follow a run from its first output, until it ends or the user leaves it. `restarts`: not 0
    for an attempt of a run that its hosts may start again."""
    target, root = fleet.target, fleet.root
    require_same_format(run)
    hosts = map_reporting_hosts(fleet, run)
    hub = _find_hub(run, hosts)
    plan, age, options = _read_plan(fleet, run, hub, hosts[hub])
    keys = "Ctrl-C stops the run, Ctrl-\\ leaves it running"
    if signal.SIGINT in interrupts.leaving:
        keys = "Ctrl-C leaves it running"
    state = f"{run.id} has ended: {run.phase.value}"
    painter.note(state if run.over else f"attached to {run.id}: {keys}")
    painter.planned(run.id, plan)
    options = replace(options, restarts=restarts, name=run.about.name)
    watched = WatchedRun(plan, run.id, options, hub, attached=True, age=age)
    session = Session(
        watched,
        HostLinks(watched, lambda name: fleet.reconnect(hosts[name])),
        RunOutput(watched, painter, records.make(run.id, plan)),
        interrupts,
        noted=make_verdict_reader(fleet, run.id, hosts),
    )
    reachable = [host.host for host in plan.hosts if host.host in hosts]
    result = session.attach({name: fleet.agents[hosts[name]] for name in reachable})
    if isinstance(result, DetachedRun):
        return result
    if session.missing:
        painter.note(f"the output of {fold(session.missing)} is not complete: not reached")
    for (name, rank), lines in read_kept_tails(fleet, run, session.missing).items():
        painter.paint_lines(name, rank, lines, 0)
    return result.spelled(
        lambda name: suggest_command(target, name, root),
        lambda text: spell_hint(text, target, root),
    )


def _find_hub(run: ListedRun, hosts: Mapping[str, Host]) -> str:
    """Return the host that controls the run; if the run is over, any host has its record."""
    first = next(iter(run.about.hosts), "")
    if first not in hosts and not (run.over and hosts):
        raise Unreachable(
            f"{first or 'the first host'} of {run.id} cannot be reached from here",
            why="that host controls the run",
            hint=f"ipexctl logs {run.name_or_id} --follow",
            slug="hub-unreachable",
        )
    return first if first in hosts else next(iter(hosts))


def _read_plan(
    fleet: Fleet, run: ListedRun, name: str, host: Host
) -> tuple[LaunchPlan, float, RunOptions]:
    """Return the plan, the seconds since the run began (or that it took), and known options."""
    done = fleet.call(host, "run.run_list.plan", known_as=name, run_id=run.id).read(PlanAnswer)
    shown = shown_plan.read_shown(done.plan)
    plan = shown_plan.plan_of(shown, run.id) if shown else None
    if shown is None or plan is None:
        raise HostFailed(f"{name}: no record of {run.id}", slug="run-record-missing")
    options = RunOptions("", root=fleet.root, lives_on=True)
    if shown.host_timeout is not None:
        options = replace(options, host_timeout=Seconds(shown.host_timeout))
    return plan, run.seconds if run.over else float(done.age), options


TRY_AGAIN = 5.0  # seconds between two tries to reach a host that is away


@dataclass
class ReturnedHosts:
    """Watch for hosts that are back, over separate connections: the command's are busy with output.

    `busy`: names of hosts that have ranks now: these are not reported.
    """

    target: Target
    root: str
    run_id: str  # of the first attempt
    busy: Callable[[], Collection[str]]
    back: Callable[[str], None]

    @contextmanager
    def watch_in_thread(self) -> Iterator[None]:
        """Watch in a thread until the block ends."""
        over = threading.Event()
        threading.Thread(target=self._watch_hosts, args=(over,), daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def _watch_hosts(self, ended: threading.Event) -> None:
        """Report hosts that are back, and start a keeper on those that have none."""
        with Fleet(self.target, self.root) as self.fleet:
            self.asked = list(self.fleet.hosts.hosts)
            away_before, leader = set[Host](), None
            while not ended.wait(TRY_AGAIN):
                if (away := self._find_away_hosts()) is None:
                    continue
                if leader != self.asked[0]:  # another host leads, which may never have missed these
                    away_before, leader = away_before & away, self.asked[0]
                for host in away_before - away:
                    if host.name not in self.busy():
                        self.back(host.name)
                for host, alone in fan_out(list(away_before & away), self._is_alone).items():
                    if alone is True:
                        self._take_back(host)
                away_before = away

    def _find_away_hosts(self) -> set[Host] | None:
        """Return hosts without a connection to the leading keeper; None if that is not known."""
        for host in list(self.asked):
            with suppress(IpexctlError):
                if host not in self.fleet.agents:
                    self.fleet.connect(host)
                answer = ask_keeper(self.fleet, host, host.name, self.run_id, {})
                if answer.leads:
                    return {peer for peer in self.fleet.hosts.hosts if peer.name in answer.away}
            self.asked = [*self.asked[1:], host]  # not the leader: ask the next one first
            if dead := self.fleet.agents.pop(host, None):
                dead.close()
        return None

    def _is_alone(self, host: Host) -> bool:
        """Return whether a host is reachable and has no keeper. With one, only its link is cut."""
        return lacks_keeper(self.fleet, host, host.name, self.run_id)

    def _take_back(self, host: Host) -> None:
        """Start a keeper on a host."""
        leader = self.asked[0]
        start_keeper(self.fleet, (leader, leader.name), host, host.name, self.run_id)
