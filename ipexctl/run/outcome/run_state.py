"""Decide how a run is, from what its hosts report: one value, which all commands show."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum

from ipexctl.base.sizes import fold_numbers
from ipexctl.common.attempt_record import FurtherAttempt
from ipexctl.common.journal_records import RUN_FORMAT
from ipexctl.common.run_about import RunAbout
from ipexctl.errors import EXIT_INTERRUPTED, EXIT_OK
from ipexctl.inventory.nodeset import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome import verdict
from ipexctl.run.outcome.host_reports import RunOnHost
from ipexctl.run.outcome.run_result import EXIT_LOST
from ipexctl.run.outcome.verdict import Verdict

AT_ONE_TIME = 3.0  # seconds between records of one event on several hosts


class Phase(str, Enum):
    QUEUED = "queued"  # it waits for its cores (--queue)
    STARTING = "starting"  # its hosts are not all ready yet
    RUNNING = "running"
    STALLED = "stalled"  # its ranks make no progress
    STOPPING = "stopping"
    RESTARTING = "restarting"  # its hosts decide whether to start it again, or start it
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"  # by a user
    LOST = "lost"  # it has ended, and it is not known how


WITHOUT_RANKS = (Phase.RESTARTING, Phase.QUEUED)  # its keepers decide how it goes on
WITH_RANKS = (Phase.STARTING, Phase.RUNNING, Phase.STALLED, Phase.STOPPING)


@dataclass(frozen=True)
class RunState:
    """How a run is (one attempt of it, with --restarts), why, and since when."""

    phase: Phase
    verdict: Verdict | None = None  # None: it has not ended, and nothing has failed
    waits: str = ""  # what its hosts wait for before they start it, or start it again
    since: float = 0.0  # when that began, by a host's clock; 0: not known
    seconds: float = 0.0  # from the begin of the run until its last record
    attempt_cause: str = ""  # how this attempt ended, if the cause is what followed it
    no_further: str = ""  # why no attempt followed, of a run that failed
    recorded: bool = False  # the record of the run has how it ended
    never_began: bool = False  # it was queued, and is over before all hosts were ready
    may_go_on: bool = False  # on hosts that were not asked

    @property
    def over(self) -> bool:
        return self.phase not in (*WITHOUT_RANKS, *WITH_RANKS)

    @property
    def has_no_ranks(self) -> bool:
        """Whether its keepers decide how it goes on."""
        return self.phase in WITHOUT_RANKS

    @property
    def reason(self) -> str:
        """What it waits for, or what ended it; "" while it runs."""
        return self.waits or (self.verdict.cause if self.verdict else "")


def decide_run_state(reports: Sequence[RunOnHost], *, is_last: bool) -> RunState:
    """Decide it from what hosts report. `is_last`: no later attempt is listed. The record of the
    run, on which its keepers have agreed, decides about the last attempt: its hosts may not have
    seen how the run ended."""
    if not is_last:  # what ended the run later did not end this attempt
        reports = [report.without_stop() for report in reports]
    deciding = _deciding_reports(reports)
    state = _state_by_hosts(reports, deciding)
    if is_last and state.phase not in WITH_RANKS:
        state = _state_by_record(state, reports)
    began = find_begin(reports)
    seconds = max(report.journal.seconds for report in deciding or reports)
    leads = any(report.keeper.leads for report in reports)  # the majority was asked
    recorded = any(report.record.settled for report in reports)
    known = recorded or (leads and state.phase is Phase.RESTARTING)
    return replace(
        state,
        waits=_waits_text(reports) if state.has_no_ranks else "",
        since=_find_since(state.phase, reports, deciding, began, seconds) if began else 0.0,
        seconds=seconds,
        recorded=recorded,
        never_began=state.over and not has_begun(reports),
        may_go_on=not known and (state.phase is Phase.LOST or bool(further_attempts(reports))),
    )


def find_about(reports: Iterable[RunOnHost]) -> RunAbout:
    """Return what the command that started the run recorded, from the host that knows most."""
    return max((report.about for report in reports), key=lambda a: (a.ranks, a.command))


def find_begin(reports: Sequence[RunOnHost]) -> float:
    """Return when the run was started; when it was queued, if it has not begun."""
    begun = [report for report in reports if report.has_start]
    times = (report.journal.began for report in begun or reports)
    return min((began for began in times if began), default=0.0)


def has_begun(reports: Iterable[RunOnHost]) -> bool:
    """Whether it was not queued, or all hosts of an attempt were ready. A host without ranks of it
    knows from its record that it ran, also where those with ranks have removed theirs."""
    return any(report.has_start or report.record.ran for report in reports)


def _waits_text(reports: Sequence[RunOnHost]) -> str:
    return max(reports, key=lambda report: report.keeper.leads).keeper.waits


def _find_since(
    phase: Phase,
    reports: Sequence[RunOnHost],
    deciding: Sequence[RunOnHost],
    began: float,
    seconds: float,
) -> float:
    if phase in (Phase.QUEUED, Phase.STARTING):
        return began
    if phase is Phase.RUNNING:
        return began + max(report.journal.went for report in reports)
    if phase is Phase.STALLED:
        return began + max(report.journal.progressed or 0.0 for report in reports)
    if phase is Phase.STOPPING:
        return began + next((report.journal.decided or 0.0 for report in deciding), 0.0)
    return began + seconds


def _state_by_hosts(reports: Sequence[RunOnHost], deciding: Sequence[RunOnHost]) -> RunState:
    """Decide it from the journals of hosts: what they saw of this attempt."""
    outcome = _verdict_of_run(reports, deciding)
    if any(report.alive for report in reports):
        return RunState(Phase.STOPPING if outcome else _phase_of_ranks(reports), outcome)
    if outcome is None or outcome.ended_by == verdict.UNKNOWN:
        return RunState(Phase.LOST, outcome)
    failure = Phase.STOPPED if outcome.ended_by == verdict.INTERRUPTED else Phase.FAILED
    return RunState(Phase.DONE if outcome.exit_code == 0 else failure, outcome)


def _phase_of_ranks(reports: Sequence[RunOnHost]) -> Phase:
    if any(report.journal.stall is not None for report in reports):
        return Phase.STALLED
    return Phase.RUNNING if any(report.journal.begun for report in reports) else Phase.STARTING


def _state_by_record(state: RunState, reports: Sequence[RunOnHost]) -> RunState:
    """Decide it for an attempt without processes: the record of the run knows more."""
    recorded = any(report.record.settled for report in reports)
    stopped = any(report.record.stopped for report in reports)
    if all(report.row.queued for report in reports) and not (recorded or stopped):
        return RunState(Phase.QUEUED)
    if any(report.record.done for report in reports):
        return RunState(Phase.DONE, Verdict(EXIT_OK, "ranks", ""))
    if all(report.record.cut_off for report in reports):
        why = "its hosts here were cut off from others, on which it may go on"
        return RunState(Phase.LOST, Verdict(EXIT_LOST, verdict.UNKNOWN, why))
    if state.phase is Phase.DONE:
        return state
    if recorded:
        return _state_of_recorded_end(state, reports)
    return _restarting(state, reports) if any(report.row.kept for report in reports) else state


def _restarting(state: RunState, reports: Sequence[RunOnHost]) -> RunState:
    """Return the state of an attempt whose keepers decide how the run goes on."""
    lost = {report.verdict.lost for report in reports if report.verdict and report.verdict.lost}
    if state.verdict and len(lost) > 1 and not recorded_losses(reports):
        why = "its hosts do not reach each other, and have not agreed yet on which were lost"
        state = replace(state, verdict=replace(state.verdict, cause=why))
    return replace(state, phase=Phase.RESTARTING)


def _state_of_recorded_end(state: RunState, reports: Sequence[RunOnHost]) -> RunState:
    """Return the state of a run that is over according to its record: what the record has, if
    attempts followed that did not begin, or if it is not known how this attempt ended."""
    recorded = next((report.record.end for report in reports if report.record.end), "")
    if state.phase is Phase.STOPPED or not recorded:
        return state
    further = further_attempts(reports)
    known = state.verdict
    if known is None or known.ended_by == verdict.UNKNOWN or any(later.ran for later in further):
        return RunState(Phase.FAILED, Verdict(EXIT_LOST, verdict.UNKNOWN, recorded))
    if further:
        return RunState(Phase.FAILED, replace(known, cause=recorded), attempt_cause=known.cause)
    why = next((report.record.why for report in reports if report.record.why), "")
    return replace(state, no_further=shorten_end(recorded, why))


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


def _deciding_reports(reports: Sequence[RunOnHost]) -> list[RunOnHost]:
    """Return the hosts that know how the run ended, the best source first.

    The first fact counts, whatever a host records that was frozen or cut off, and is back. If hosts
    of a divided network recorded different ones at one time, the record of the run decides;
    without one, the majority does. A lost host knows best how it was lost, then the hub.
    """
    first, recorded = find_about(reports).hosts[:1], recorded_losses(reports)
    judged = [report for report in reports if report.verdict]
    earliest = min((report.decided for report in judged), default=0.0)
    early = [report for report in judged if report.decided <= earliest + AT_ONE_TIME]
    votes = Counter(map(_what_ended_it, early))

    def worth(report: RunOnHost) -> tuple[bool, int, bool, bool]:
        ended_by, lost = _what_ended_it(report)
        is_hub = report.host in first
        return lost in recorded, votes[ended_by, lost], lost == report.host, is_hub

    early.sort(key=worth, reverse=True)
    return [report for report in early if _what_ended_it(report) == _what_ended_it(early[0])]


def recorded_losses(reports: Iterable[RunOnHost]) -> tuple[str, ...]:
    return max((tuple(report.record.lost) for report in reports), key=len, default=())


def _what_ended_it(report: RunOnHost) -> tuple[str, str]:
    return (report.verdict.ended_by, report.verdict.lost) if report.verdict else ("", "")


def _verdict_of_run(reports: Sequence[RunOnHost], deciding: Sequence[RunOnHost]) -> Verdict | None:
    """Return how the run ended; None: it has not ended."""
    about, ok = find_about(reports), sum(report.journal.ok for report in reports)
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


def _unknown_ending(reports: Sequence[RunOnHost], about: RunAbout) -> str:
    with_ranks = [report for report in reports if report.host in about.hosts]
    if about.hosts and not with_ranks:
        return f"its ranks were on {fold(about.hosts)}, which did not say how they ended"
    reports = with_ranks or reports
    formats = {report.journal.format for report in reports}
    if formats - {None, RUN_FORMAT} or any(report.row.unreadable for report in reports):
        return "its record does not say how it ended"
    report = next((candidate for candidate in reports if candidate.journal.over), None)
    silent = f"{reports[0].host} was switched off, or all processes of the run were killed there"
    return f"{report.host}: {report.journal.over}" if report else silent
