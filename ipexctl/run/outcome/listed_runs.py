"""Merge the runs that hosts report: one row for each run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ipexctl.base.values import plain
from ipexctl.common.attempt_record import (
    PLACE_PARTS,
    USED,
    FurtherAttempt,
    QueuedRun,
    describe_place,
)
from ipexctl.common.journal_records import RUN_FORMAT
from ipexctl.common.root_paths import ATTEMPT
from ipexctl.common.run_about import RunAbout
from ipexctl.inventory.nodeset import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.host_reports import RunOnHost
from ipexctl.run.outcome.rank_states import RankEnd
from ipexctl.run.outcome.run_state import (
    Phase,
    RunState,
    decide_run_state,
    describe_unbegun,
    find_about,
    find_begin,
    find_unbegun,
    further_attempts,
)
from ipexctl.run.outcome.verdict import Verdict
from ipexctl.run.output.rank_lines import without_noise

# ids that ipexctl makes: an id becomes a folder here, and a word of commands
RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}(-r[0-9]{2,9})?")


@dataclass(frozen=True)
class ListedRun:
    """One run, merged from all hosts that reported it."""

    id: str
    about: RunAbout
    state: RunState
    began: float
    started: int
    ok: int
    last: str
    seen: tuple[RunOnHost, ...]  # for each host of the run whose journal a host here has
    bytes: int | None
    earlier: tuple[QueuedRun, ...] = ()  # before it in the queue, if its keepers do not know of all

    @property
    def name_or_id(self) -> str:
        return self.about.name or self.id

    @property
    def phase(self) -> Phase:
        return self.state.phase

    @property
    def over(self) -> bool:
        return self.state.over

    @property
    def queued(self) -> bool:
        return self.phase is Phase.QUEUED

    @property
    def seconds(self) -> float:
        """From its begin until its last record."""
        return self.state.seconds

    def lasting(self, seconds: float) -> ListedRun:
        """Return it with this time from its begin until now, or until its end."""
        return replace(self, state=replace(self.state, seconds=seconds))

    @property
    def verdict(self) -> Verdict | None:
        """How it ended; None: it has not, and nothing has failed."""
        return self.state.verdict

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
    def has_start(self) -> bool:
        """Whether it is known when its ranks started; `began` is when it was queued if not."""
        return any(report.has_start for report in self.seen)

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
    def exit_code(self) -> int | None:
        return self.verdict.exit_code if self.verdict else None

    @property
    def cause(self) -> str:
        return self.verdict.cause if self.verdict else ""

    @property
    def error_line(self) -> str:
        """The last line of the rank that is the cause: its exception, if it raised one."""
        return self.last if self.verdict and self.verdict.last else ""

    @property
    def end_texts(self) -> tuple[str, ...]:
        """Why it ended, the attempts after it that did not begin, and why none followed."""
        state = self.state
        own = f"attempt {self.attempt}: {state.attempt_cause}" if state.attempt_cause else ""
        unbegun = describe_unbegun(find_unbegun(self.further))
        no_further = f"no further attempt: {state.no_further}" if state.no_further else ""
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
    def before(self) -> tuple[QueuedRun, ...]:
        """The runs before it in the queue, the next one to begin first."""
        if self.earlier:
            return self.earlier
        leading = (report.keeper for report in self.seen if report.keeper.leads and self.queued)
        return next((tuple(keeper.before) for keeper in leading), ())

    @property
    def holds_tickets(self) -> bool:
        """Whether it waits for nothing but its turn. One that lacks hosts leaves the queue of the
        others to later runs, which then do not know of it."""
        parts = self.state.waits.split("; ")
        return all(part.startswith((*PLACE_PARTS, USED)) for part in parts)

    def removed_from(self, answered: Iterable[str]) -> list[str]:
        """Return which of these hosts, which were asked for all runs, had ranks of this one and
        know nothing of it any more: it was pruned or removed there, with its output."""
        ran = self.over and any(report.journal.begun or report.record.ran for report in self.seen)
        return self.unseen_on(answered) if ran else []

    def unseen_on(self, answered: Iterable[str]) -> list[str]:
        """Return which of these hosts have a part of it and have not named it."""
        known = {name for report in self.seen for name in (report.host, report.target)}
        return [name for name in answered if name in {*self.about.hosts} - known]

    @property
    def hosts_text(self) -> str:
        """Its hosts; `any of node[01-03]` while it waits for those that are free first."""
        hosts = fold(self.about.hosts or tuple(report.host for report in self.seen))
        chooses = self.queued and self.about.any_of
        return f"any of {hosts}" if chooses else hosts

    @property
    def ranks_text(self) -> str:
        """Such as `1 rank on any of node[01-03]`."""
        count = self.about.ranks
        return f"{count} rank{'s' * (count != 1)} on {self.hosts_text}"

    @property
    def queue_text(self) -> str:
        return f"{self.name_or_id} is queued" + f": {self.state.waits}" * bool(self.state.waits)

    def naming(self, runs: Sequence[ListedRun]) -> ListedRun:
        """Return it with the names of these runs where it says for which runs it waits, and with
        who started those of others."""
        waits = with_names(self.state.waits, runs, _owner_of(self))
        return replace(self, state=replace(self.state, waits=waits))

    @property
    def ends(self) -> dict[int, RankEnd]:
        """The ends of those ranks of a stalled run that have ended."""
        return {end.rank: end for report in self.seen for end in report.ends}

    @property
    def targets(self) -> tuple[str, ...]:
        """The hosts that reported it, by their names in the inventory here."""
        return tuple(report.target for report in self.seen)

    def concerns(self, host: str) -> bool:
        """Return whether a part of it may be on this host."""
        return not self.about.hosts or host in (*self.about.hosts, *self.targets)

    @property
    def alive(self) -> tuple[str, ...]:
        """The hosts on which part of it is alive."""
        return tuple(report.host for report in self.seen if report.alive)


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
    runs = [_merge_run(begun[run_id], is_last=run_id in newest) for run_id in ids]
    return tuple(_add_earlier(runs))


def _add_earlier(runs: Sequence[ListedRun]) -> Iterator[ListedRun]:
    """Yield the runs; queued ones with all runs before them, also those that wait for a host which
    is away and so have left the queue of the others, and those before an earlier run."""
    waiting = sorted((run for run in runs if run.queued), key=lambda run: (run.began, run.id))
    before: dict[str, dict[tuple[str, str], QueuedRun]] = {}
    for i, run in enumerate(waiting):
        known = _by_owner(run.before)
        added: dict[tuple[str, str], QueuedRun] = {}
        for other in reversed(waiting[:i]):
            key = other.first_id, _owner_of(other)
            if key not in added and (key in known or _may_not_know(run, other)):
                added |= before[other.id] | {key: QueuedRun(int(other.began * 1000), *key)}
        before[run.id] = known | added
    for run in runs:
        rows = before.get(run.id, {})
        if rows.keys() == _by_owner(run.before).keys():
            yield run
        else:
            earlier = tuple(sorted(rows.values(), key=lambda row: (row.since, row.run)))
            waits = _with_place(run.state.waits, earlier)
            yield replace(run, earlier=earlier, state=replace(run.state, waits=waits))


def _by_owner(rows: Iterable[QueuedRun]) -> dict[tuple[str, str], QueuedRun]:
    return {(row.run, row.owner): row for row in rows}


def _may_not_know(run: ListedRun, earlier: ListedRun) -> bool:
    """Return whether a queued run and an earlier one need the same hosts, and one of them may not
    be in the queue there."""
    shares = not {*run.about.hosts}.isdisjoint(earlier.about.hosts)
    return shares and not (run.holds_tickets and earlier.holds_tickets)


def _with_place(waits: str, before: Sequence[QueuedRun]) -> str:
    """Return what a run waits for with its place after these runs."""
    others = [part for part in waits.split("; ") if not part.startswith(PLACE_PARTS)]
    return "; ".join([*describe_place(list(before)), *others]) if waits else ""


def _report_priority(report: RunOnHost) -> tuple[bool, bool]:
    """Return a sort key: hosts that share their home all report one journal, but only its own host
    sees the processes and can end them."""
    return report.alive, report.target == report.host


def _was_there(report: RunOnHost) -> bool:
    journal, row = report.journal, report.row
    recorded = journal.begun or journal.started > 0 or report.result is not None or row.waited
    return recorded or row.alive or row.unreadable or journal.format not in (None, RUN_FORMAT)


def _merge_run(reports: tuple[RunOnHost, ...], *, is_last: bool) -> ListedRun:
    """Merge the reports of all hosts about one run."""
    about = find_about(reports)
    ok = sum(report.journal.ok for report in reports)
    started = sum(report.journal.started for report in reports)
    state = decide_run_state(reports, is_last=is_last)
    lines = sorted(filter(None, (report.row.last for report in reports)))
    last = next((text for _, text in lines if _says_something(text)), "")
    words = plain(state.verdict.last, 400) if state.verdict else ""
    sizes = [report.row.bytes for report in reports if report.row.bytes is not None]
    return ListedRun(
        id=reports[0].run,
        about=about,
        state=state,
        began=find_begin(reports),
        started=started,
        ok=ok,
        last=words or last,
        seen=reports,
        bytes=sum(sizes) if sizes else None,
    )


def _attempt_number(run_id: str) -> int:
    match = ATTEMPT.search(run_id)
    return int(match[1]) if match else 1


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


_OWNED = re.compile(rf"(?P<run>{RUN_ID.pattern}) of (?P<owner>[^ ,;]+)")


def with_names(text: str, runs: Sequence[ListedRun], reader: str | None = None) -> str:
    """Replace the IDs of listed runs by their names; owners stay if they are not the reader."""
    names = names_by_owner(runs)

    def spell(match: re.Match[str]) -> str:
        owner = match["owner"]
        name = names.get((match["run"], owner))
        if name is None:
            return match[0]
        return name if reader in (None, owner) else f"{name} of {owner}"

    return _OWNED.sub(spell, text)


def _owner_of(run: ListedRun) -> str:
    return "".join(run.about.by.split())  # as run_about.read_owner


def _says_something(line: str) -> bool:
    """Return whether a rank's last line says more than that it was told to end."""
    return bool(without_noise([line])) and not line.endswith("KeyboardInterrupt")
