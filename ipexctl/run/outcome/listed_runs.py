"""Merge the runs that hosts report: one row for each run."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from typing import Any

from ipexctl.base.host_answer import Odd, as_type, read_record
from ipexctl.base.sizes import fold_numbers
from ipexctl.base.values import by, matching_text, plain
from ipexctl.common.attempt_record import FurtherAttempt, KeeperAnswer, QueuedRun
from ipexctl.common.root_paths import ATTEMPT
from ipexctl.common.run_answers import AttemptSummary, JournalSummary, RunRow
from ipexctl.common.run_events import Fact
from ipexctl.errors import EXIT_INTERRUPTED, EXIT_OK, InputError
from ipexctl.explain.causes.causes import Cause
from ipexctl.inventory.nodeset import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome import event_reader, verdict
from ipexctl.run.outcome.run_result import EXIT_LOST
from ipexctl.run.outcome.run_state import RankEnd
from ipexctl.run.outcome.verdict import Verdict
from ipexctl.run.output.rank_lines import without_noise

FORMAT = 1  # format of journals that this version writes and understands
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
# ids that ipexctl makes: an id becomes a folder here, and a word of commands
RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}(-r[0-9]{2,9})?")
_HUGE = 1 << 37  # seconds: beyond the end of Python's calendar
AT_ONE_TIME = 3.0  # seconds between records of one event on several hosts


class ListedState(str, Enum):
    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"  # by a user
    LOST = "lost"  # it has ended, and it is not known how
    RESTARTING = "restarting"  # its hosts decide whether to start it again, or start it
    QUEUED = "queued"  # it waits for its cores (--queue)


NO_RANKS = (ListedState.RESTARTING, ListedState.QUEUED)  # its keepers decide how it goes on
ACTIVE = (ListedState.RUNNING, ListedState.STOPPING, *NO_RANKS)


def seconds_or_zero(value: Any) -> float:
    """Read seconds, or a time; 0 for anything else."""
    ok = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _HUGE
    return float(value) if ok else 0.0


def read_ends(facts: Sequence[Fact]) -> tuple[RankEnd, ...]:
    """Return how ranks ended, from facts of the hub."""
    events = [fact.event for fact in verdict.read_all(facts)]
    return tuple(event.end for event in events if isinstance(event, event_reader.RankEnded))


VERSION = by(plain, key="ipexctl")


@dataclass(frozen=True)
class About:
    """What the command that started the run recorded about it."""

    name: str = field(default="", metadata=by(matching_text(_NAME)))
    hosts: tuple[str, ...] = ()
    ranks: int = 0
    command: str = ""
    by: str = ""  # user@machine
    folder: str = ""
    typed_in: str = ""  # the folder where the command was typed
    cwd: str = ""  # where ranks started, below the top of what was sent
    commit: str = ""  # of the folder's Git work tree; files may have been changed since
    version: str = field(default="", metadata=VERSION)  # of ipexctl
    any_of: int = 0  # while it is queued: it takes so many of the hosts; 0: all


@dataclass(frozen=True)
class RunOnHost:
    """What one host says of a run, and what that means."""

    row: RunRow
    target: str  # the host's name in the inventory here
    about: About = About()
    result: Verdict | None = None  # from the command that watched the run
    verdict: Verdict | None = None  # from the hub's records, or this host's about a lost hub
    decided: float = 0.0  # when that was noted: seconds after the ranks were started
    own: Verdict | None = None  # by what this host knows without the hub
    ends: tuple[RankEnd, ...] = ()  # of ranks of a stalled run, until its last look

    @property
    def host(self) -> str:
        """Its name in the run."""
        return self.row.host

    @property
    def run(self) -> str:
        return self.row.run

    @property
    def alive(self) -> bool:
        return self.row.alive

    @property
    def journal(self) -> JournalSummary:
        return self.row.journal

    @property
    def record(self) -> AttemptSummary:
        return self.row.record

    @property
    def keeper(self) -> KeeperAnswer:
        return self.row.keeper

    def without_stop(self) -> RunOnHost:
        """Return the same of a run that no user stopped."""
        record = self.record.replace(stopped="")
        return replace(self, row=self.row.replace(record=record))


@dataclass(frozen=True)
class ListedRun:
    """One run, merged from all hosts that reported it."""

    id: str
    about: About
    state: ListedState
    began: float
    seconds: float
    started: int
    ok: int
    verdict: Verdict | None  # None: it has not ended, and nothing has failed
    last: str
    seen: tuple[RunOnHost, ...]  # for each host of the run whose journal a host here has
    bytes: int | None
    attempt_cause: str = ""  # how this attempt ended, if the cause is what followed it
    no_further: str = ""  # why no attempt followed, of a run that failed

    @property
    def name_or_id(self) -> str:
        return self.about.name or self.id

    @property
    def over(self) -> bool:
        return self.state not in ACTIVE

    def seconds_at(self, now: float) -> float:
        """Return how long the run has lasted; `now` counts for an active run."""
        goes_on = not self.over and self.began > 0
        return max(self.seconds, now - self.began) if goes_on else self.seconds

    @property
    def first_id(self) -> str:
        """The id of its first attempt."""
        return ATTEMPT.sub("", self.id)

    @property
    def attempt(self) -> int:
        return _attempt_number(self.id)

    @property
    def attempt_id(self) -> str:
        """The id of this attempt; the id of the first one alone means the last."""
        return f"{self.first_id}-r{self.attempt:02d}"

    @property
    def all_ok(self) -> bool:
        """Whether every rank has succeeded; copies of its last checkpoints may still be missing."""
        return 0 < self.about.ranks <= self.ok

    @property
    def kept(self) -> bool:
        """Whether its hosts may start it again."""
        return any(report.row.kept for report in self.seen)

    @property
    def queued(self) -> bool:
        """Whether it waits for its first attempt, according to all hosts that know it."""
        over = self.settled or any(report.record.stopped for report in self.seen)
        return all(report.row.queued for report in self.seen) and not over

    @property
    def never_began(self) -> bool:
        """Whether it was queued, and is over before all hosts were ready. A host without ranks of
        it knows from its record that it ran, also where those with ranks have removed theirs."""
        waited = all(
            report.row.waited and not (report.journal.begun or report.record.ran)
            for report in self.seen
        )
        return self.over and waited

    @property
    def has_start(self) -> bool:
        """Whether it is known when its ranks started; `began` is when it was queued if not."""
        return any(report.journal.begun or not report.row.waited for report in self.seen)

    @property
    def further(self) -> tuple[FurtherAttempt, ...]:
        """The attempts after this one that the record of the run has, also those that did not
        begin."""
        return further_attempts(self.seen)

    @property
    def skipped(self) -> tuple[str, ...]:
        """The checkpoints from which later attempts did not begin, and why."""
        return tuple(dict.fromkeys(text for row in self.further for text in row.skipped))

    @property
    def later(self) -> bool:
        """Whether another attempt followed, and ran."""
        return any(attempt.ran for attempt in self.further)

    @property
    def may_go_on(self) -> bool:
        """Whether it may still run on hosts that were not asked."""
        decides = any(report.keeper.leads for report in self.seen)  # the majority was asked
        known = self.settled or (decides and self.state is ListedState.RESTARTING)
        return not known and (self.state is ListedState.LOST or bool(self.further))

    @property
    def settled(self) -> bool:
        """Whether its record has how it ended."""
        return any(report.record.settled for report in self.seen)

    @property
    def exit_code(self) -> int | None:
        return self.verdict.exit_code if self.verdict else None

    @property
    def cause(self) -> str:
        return self.verdict.cause if self.verdict else ""

    @property
    def end_texts(self) -> tuple[str, ...]:
        """Why it ended, the attempts after it that did not begin, and why none followed."""
        own = f"attempt {self.attempt}: {self.attempt_cause}" if self.attempt_cause else ""
        unbegun = describe_unbegun(find_unbegun(self.further))
        no_further = f"no further attempt: {self.no_further}" if self.no_further else ""
        return tuple(filter(None, (self.cause, own, *unbegun, no_further)))

    @property
    def unreadable(self) -> bool:
        return all(report.row.unreadable for report in self.seen)

    @property
    def cut(self) -> tuple[tuple[str, float], ...]:
        """Which hosts do not reach each other, from the hub; if that is out of reach, any host."""
        first = self.about.hosts[:1]
        hub_first = sorted(self.seen, key=lambda report: report.host not in first)
        return next((tuple(report.journal.cut) for report in hub_first if report.alive), ())

    @property
    def stall(self) -> float | None:
        """Seconds without progress; None: it makes progress, or made progress until its end."""
        stalls = (report.journal.stall for report in self.seen)
        return max((stall for stall in stalls if stall is not None), default=None)

    @property
    def waits(self) -> str:
        """What its hosts wait for before they start it again."""
        leader_first = sorted(self.seen, key=lambda report: not report.keeper.leads)
        return leader_first[0].keeper.waits if self.state in NO_RANKS else ""

    @property
    def before(self) -> tuple[QueuedRun, ...]:
        """The runs before it in the queue, the next one to begin first."""
        leading = (report.keeper for report in self.seen if report.keeper.leads and self.queued)
        return next((tuple(keeper.before) for keeper in leading), ())

    def removed_from(self, answered: Iterable[str]) -> list[str]:
        """Return which of these hosts, which were asked for all runs, had ranks of this one and
        know nothing of it any more: it was pruned or removed there, with its output."""
        ran = self.over and any(report.journal.begun or report.record.ran for report in self.seen)
        known = {name for report in self.seen for name in (report.host, report.target)}
        return [name for name in answered if ran and name in {*self.about.hosts} - known]

    @property
    def hosts_text(self) -> str:
        """Its hosts; `any of node[01-03]` while it waits for those that are free first."""
        hosts = fold(self.about.hosts or tuple(report.host for report in self.seen))
        chooses = self.state is ListedState.QUEUED and self.about.any_of
        return f"any of {hosts}" if chooses else hosts

    @property
    def ranks_text(self) -> str:
        """Such as `1 rank on any of node[01-03]`."""
        count = self.about.ranks
        return f"{count} rank{'s' * (count != 1)} on {self.hosts_text}"

    @property
    def queue_text(self) -> str:
        return f"{self.id} is queued" + f": {self.waits}" * bool(self.waits)

    @property
    def ends(self) -> dict[int, RankEnd]:
        """The ends of those ranks of a stalled run that have ended."""
        return {end.rank: end for report in self.seen for end in report.ends}

    @property
    def targets(self) -> tuple[str, ...]:
        """The hosts that reported it, by their names in the inventory here."""
        return tuple(report.target for report in self.seen)

    @property
    def alive(self) -> tuple[str, ...]:
        """The hosts on which part of it is alive."""
        return tuple(report.host for report in self.seen if report.alive)


def checked_name(name: str) -> str:
    """Return the name; raise InputError for one that could be taken for an id."""
    if name and not _NAME.fullmatch(name):
        raise InputError(
            f"--name {name!r}: not a valid name for a run",
            why="a name begins with a letter; letters, digits, '.', '_' and '-' may follow, "
            "64 characters at most",
            slug="run-name-invalid",
        )
    return name


def read_on_host(
    target: str, row: RunRow, known: Callable[[], tuple[Cause, ...]] = tuple
) -> RunOnHost:
    """Return what a host's answer means. `target`: its name in the inventory here; `known` is
    called to interpret the last lines of failed ranks."""
    journal, name = row.journal, row.host
    about = read_record(About, journal.about)
    times = {key: seconds_or_zero(getattr(journal, key)) for key in ("began", "seconds")}
    by_hub, by_host = (
        verdict.decide_verdict(verdict.read_all(facts, name), about.ranks, known)
        for facts in (journal.facts, journal.own)
    )
    return RunOnHost(
        row=row.replace(journal=journal.replace(**times)),
        target=target,
        about=about,
        result=_read_result(journal.result),
        verdict=by_hub,
        decided=max(0.0, seconds_or_zero(journal.decided) - seconds_or_zero(journal.went)),
        own=by_host,
        ends=read_ends(journal.ends),
    )


def _read_result(raw: Mapping[str, Any] | None) -> Verdict | None:
    try:
        return None if raw is None else as_type(Verdict, dict(raw), strict=False)
    except Odd:
        return None


def merge_runs(reports: Iterable[RunOnHost]) -> tuple[ListedRun, ...]:
    """Merge reports to runs, newest first, as ids have the time of the start. A run that never
    began is left out, unless the command that started it left a result."""
    by_run: dict[str, dict[str, RunOnHost]] = {}
    for report in reports:
        by_host = by_run.setdefault(report.run, {})
        previous = by_host.get(report.host)
        if previous is None or _report_priority(report) > _report_priority(previous):
            by_host[report.host] = report
    begun = {
        run_id: tuple(seen.values())
        for run_id, seen in by_run.items()
        if RUN_ID.fullmatch(run_id) and any(map(_was_there, seen.values()))
    }
    newest = {ATTEMPT.sub("", run_id): run_id for run_id in sorted(begun)}.values()
    ids = sorted(begun, reverse=True)
    return tuple(_merge_run(begun[run_id], is_last=run_id in newest) for run_id in ids)


def _report_priority(report: RunOnHost) -> tuple[bool, bool]:
    """Return a sort key: hosts that share their home all report one journal, but only its own host
    sees the processes and can end them."""
    return report.alive, report.target == report.host


def _was_there(report: RunOnHost) -> bool:
    journal, row = report.journal, report.row
    recorded = journal.begun or journal.started > 0 or report.result is not None or row.waited
    return recorded or row.alive or row.unreadable or journal.format not in (None, FORMAT)


def _merge_run(reports: tuple[RunOnHost, ...], *, is_last: bool) -> ListedRun:
    """Merge the reports of all hosts about one run."""
    about = max((report.about for report in reports), key=lambda a: (a.ranks, a.command))
    ok = sum(report.journal.ok for report in reports)
    started = sum(report.journal.started for report in reports)
    end = decide_run_end(reports, about, ok, is_last=is_last)
    lines = sorted(filter(None, (report.row.last for report in reports)))
    last = next((text for _, text in lines if _says_something(text)), "")
    words = plain(end.verdict.last, 400) if end.verdict else ""
    sizes = [report.row.bytes for report in reports if report.row.bytes is not None]
    return ListedRun(
        id=reports[0].run,
        about=about,
        state=end.state,
        began=_find_begin(reports),
        seconds=max(report.journal.seconds for report in end.deciding or reports),
        started=started,
        ok=ok,
        verdict=end.verdict,
        last=words or last,
        seen=reports,
        bytes=sum(sizes) if sizes else None,
        attempt_cause=end.attempt_cause,
        no_further=end.no_further,
    )


def _find_begin(reports: Sequence[RunOnHost]) -> float:
    """Return when the run was started; when it was queued, if it has not begun."""
    begun = [report for report in reports if report.journal.begun or not report.row.waited]
    times = (report.journal.began for report in begun or reports)
    return min((began for began in times if began), default=0.0)


# --- how a run ended, and why: all commands read it from here -------------------------------------


@dataclass(frozen=True)
class RunEnd:
    """The state of a run (of one attempt, with --restarts), and how it ended."""

    state: ListedState
    verdict: Verdict | None  # None: it has not ended, and nothing has failed
    deciding: Sequence[RunOnHost] = ()  # the hosts that know how it ended, the best source first
    attempt_cause: str = ""  # how this attempt ended, if the cause is what followed it
    no_further: str = ""  # why no attempt followed, of a run that failed


def decide_run_end(reports: Sequence[RunOnHost], about: About, ok: int, *, is_last: bool) -> RunEnd:
    """Decide the state of a run and why it ended, from what its hosts report. `ok`: ranks that
    succeeded; `is_last`: no later attempt is listed. The record of the run, on which its keepers
    have agreed, decides about the last attempt: its hosts may not have seen how the run ended."""
    if not is_last:  # what ended the run later did not end this attempt
        reports = [report.without_stop() for report in reports]
    deciding = _deciding_reports(reports, about)
    outcome = _verdict_of_run(reports, about, ok, deciding)
    end = RunEnd(_state_of_run(reports, outcome), outcome, deciding)
    if not is_last or end.state in ACTIVE:
        return end
    settled = any(report.record.settled for report in reports)
    stopped = any(report.record.stopped for report in reports)
    if all(report.row.queued for report in reports) and not (settled or stopped):
        return RunEnd(ListedState.QUEUED, None, deciding)
    if any(report.record.done for report in reports):
        return RunEnd(ListedState.DONE, Verdict(EXIT_OK, "ranks", ""), deciding)
    if all(report.record.cut_off for report in reports):
        why = "its hosts here were cut off from others, on which it may go on"
        return RunEnd(ListedState.LOST, Verdict(EXIT_LOST, verdict.UNKNOWN, why), deciding)
    if end.state is ListedState.DONE:
        return end
    if settled:
        return _as_recorded(end, reports)
    return _restarting(end, reports) if any(report.row.kept for report in reports) else end


def _restarting(end: RunEnd, reports: Sequence[RunOnHost]) -> RunEnd:
    """Return the end of an attempt whose keepers decide how the run goes on."""
    lost = {report.verdict.lost for report in reports if report.verdict and report.verdict.lost}
    if end.verdict and len(lost) > 1 and not recorded_losses(reports):
        why = "its hosts do not reach each other, and have not agreed yet on which were lost"
        end = replace(end, verdict=replace(end.verdict, cause=why))
    return replace(end, state=ListedState.RESTARTING)


def _as_recorded(end: RunEnd, reports: Sequence[RunOnHost]) -> RunEnd:
    """Return the end of a run that is over according to its record: what the record has, if
    attempts followed that did not begin, or if it is not known how this attempt ended."""
    recorded = next((report.record.end for report in reports if report.record.end), "")
    if end.state is ListedState.STOPPED or not recorded:
        return end
    further = further_attempts(reports)
    known = end.verdict if end.verdict and end.verdict.ended_by != verdict.UNKNOWN else None
    if known and not further:
        why = next((report.record.why for report in reports if report.record.why), "")
        return replace(end, no_further=shorten_end(recorded, why))
    if known and not any(later.ran for later in further):
        decided = replace(known, cause=recorded)
        return RunEnd(ListedState.FAILED, decided, end.deciding, known.cause)
    unknown = Verdict(EXIT_LOST, verdict.UNKNOWN, recorded)
    return RunEnd(ListedState.FAILED, unknown, end.deciding)


def further_attempts(reports: Iterable[RunOnHost]) -> tuple[FurtherAttempt, ...]:
    """Return the attempts after this one, from the longest record."""

    def known(report: RunOnHost) -> tuple[bool, int, int]:
        outcomes = sum(attempt.ran or bool(attempt.why) for attempt in report.record.further)
        return report.record.settled, len(report.record.further), outcomes

    furthest = max(reports, key=known, default=None)
    return tuple(furthest.record.further) if furthest else ()


def shorten_end(end: str, why: str) -> str:
    """Return why the run is over without `why` its last attempt ended, which has been said."""
    return end.removeprefix(why).lstrip(":; ") or end


def find_unbegun(further: Iterable[FurtherAttempt]) -> list[FurtherAttempt]:
    """Return the attempts right after this one that did not begin."""
    after = itertools.takewhile(lambda attempt: not attempt.ran, further)
    return [attempt for attempt in after if attempt.why]


def describe_unbegun(attempts: Iterable[FurtherAttempt]) -> list[str]:
    """Say why attempts did not begin; of several in a row with one reason, once."""
    groups = itertools.groupby(attempts, lambda attempt: (attempt.hosts, attempt.why))
    return [
        f"{_attempts_text([attempt.attempt for attempt in rows])} on {fold(hosts)} did not begin: "
        f"{why}"
        for (hosts, why), rows in groups
    ]


def _attempts_text(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"attempt {numbers[0]}"
    return f"attempts {fold_numbers(numbers)}"


def _attempt_number(run_id: str) -> int:
    match = ATTEMPT.search(run_id)
    return int(match[1]) if match else 1


def _state_of_run(reports: Sequence[RunOnHost], outcome: Verdict | None) -> ListedState:
    if any(report.alive for report in reports):
        return ListedState.STOPPING if outcome else ListedState.RUNNING
    if outcome is None or outcome.ended_by == verdict.UNKNOWN:
        return ListedState.LOST
    failure = ListedState.STOPPED if outcome.ended_by == verdict.INTERRUPTED else ListedState.FAILED
    return ListedState.DONE if outcome.exit_code == 0 else failure


def _deciding_reports(reports: Sequence[RunOnHost], about: About) -> list[RunOnHost]:
    """Return the hosts that know how the run ended, the best source first.

    The first fact counts, whatever a host records that was frozen or cut off, and is back. If hosts
    of a divided network recorded different ones at one time, the record of the run decides;
    without one, the majority does. A lost host knows best how it was lost, then the hub.
    """
    recorded = recorded_losses(reports)
    judged = [report for report in reports if report.verdict]
    earliest = min((report.decided for report in judged), default=0.0)
    early = [report for report in judged if report.decided <= earliest + AT_ONE_TIME]
    votes = Counter(map(_what_ended_it, early))

    def worth(report: RunOnHost) -> tuple[bool, int, bool, bool]:
        ended_by, lost = _what_ended_it(report)
        is_hub = report.host in about.hosts[:1]
        return lost in recorded, votes[ended_by, lost], lost == report.host, is_hub

    early.sort(key=worth, reverse=True)
    return [report for report in early if _what_ended_it(report) == _what_ended_it(early[0])]


def recorded_losses(reports: Iterable[RunOnHost]) -> tuple[str, ...]:
    return max((tuple(report.record.lost) for report in reports), key=len, default=())


def _what_ended_it(report: RunOnHost) -> tuple[str, str]:
    return (report.verdict.ended_by, report.verdict.lost) if report.verdict else ("", "")


def _verdict_of_run(
    reports: Sequence[RunOnHost], about: About, ok: int, deciding: Sequence[RunOnHost]
) -> Verdict | None:
    """Return how the run ended; None: it has not ended."""
    stopped = next((report.record.stopped for report in reports if report.record.stopped), "")
    if stopped and not any(report.alive for report in reports):
        return Verdict(EXIT_INTERRUPTED, verdict.INTERRUPTED, stopped)
    watched = next((report.result for report in reports if report.result), None)  # the viewer's
    fact = deciding[0].verdict if deciding else None
    recorded = recorded_losses(reports)
    if recorded and (fact is None or fact.ended_by == verdict.HOST_LOST):
        if fact is None or fact.lost not in recorded:
            cause = f"{fold(recorded)}: lost"
            return Verdict(EXIT_LOST, verdict.HOST_LOST, cause, lost=recorded[0])
        others = fold(host for host in recorded if host != fact.lost)
        return replace(fact, cause=f"{fact.cause}; also lost: {others}" if others else fact.cause)
    hub_first = sorted(reports, key=lambda report: report.host not in about.hosts[:1])
    own_verdicts = [report.own for report in hub_first if report.own]
    if watched and fact and watched.ended_by == fact.ended_by:  # the journals know more
        return replace(fact, exit_code=watched.exit_code, cause=watched.cause)
    if watched or fact:
        return watched or fact
    if own_verdicts:  # a rank that failed before its host was asked to end says more
        return min(own_verdicts, key=lambda candidate: candidate.ended_by != verdict.RANK_FAILED)
    if any(report.alive for report in reports):
        return None
    if about.ranks and ok >= about.ranks:
        return Verdict(EXIT_OK, "ranks", "")
    return Verdict(EXIT_LOST, verdict.UNKNOWN, _unknown_ending(reports, about))


def _unknown_ending(reports: Sequence[RunOnHost], about: About) -> str:
    with_ranks = [report for report in reports if report.host in about.hosts]
    if about.hosts and not with_ranks:
        return f"its ranks were on {fold(about.hosts)}, which did not say how they ended"
    reports = with_ranks or reports
    formats = {report.journal.format for report in reports}
    if formats - {None, FORMAT} or any(report.row.unreadable for report in reports):
        return "its record does not say how it ended"
    report = next((candidate for candidate in reports if candidate.journal.over), None)
    silent = f"{reports[0].host} was switched off, or all processes of the run were killed there"
    return f"{report.host}: {report.journal.over}" if report else silent


def name_runs_before(run: ListedRun, runs: Sequence[ListedRun]) -> tuple[str, ...]:
    """Return the names of the runs before this one in the queue, in its order; the id of a run
    without a name, with the owner of another account's. `runs`: all that are listed."""
    names = names_by_owner(runs)
    return tuple(names.get((one.run, one.owner), f"{one.run} of {one.owner}") for one in run.before)


def names_by_owner(runs: Sequence[ListedRun]) -> dict[tuple[str, str], str]:
    """Return {(id, who started it): name} of listed runs, as hosts say both: another account can
    use the id of any run for its own place in the queue."""
    first = {(run.first_id, _owner_of(run)): run.name_or_id for run in runs}
    return first | {(run.id, _owner_of(run)): run.name_or_id for run in runs}


def _owner_of(run: ListedRun) -> str:
    return "".join(run.about.by.split())  # as run_about.read_owner


def _says_something(line: str) -> bool:
    """Return whether a rank's last line says more than that it was told to end."""
    return bool(without_noise([line])) and not line.endswith("KeyboardInterrupt")
