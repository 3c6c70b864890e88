"""What each host says of a run, and what that means for its part alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ipexctl.base.host_answer import Odd, as_type
from ipexctl.common.attempt_record import KeeperAnswer
from ipexctl.common.run_about import RunAbout
from ipexctl.common.run_answers import AttemptSummary, JournalSummary, RunRow
from ipexctl.common.run_events import Fact
from ipexctl.errors import InputError
from ipexctl.explain.causes.causes import Cause
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome import event_reader, verdict
from ipexctl.run.outcome.rank_states import RankEnd
from ipexctl.run.outcome.verdict import Verdict

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
_HUGE = 1 << 37  # seconds: beyond the end of Python's calendar


def seconds_or_zero(value: Any) -> float:
    """Read seconds, or a time; 0 for anything else."""
    ok = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _HUGE
    return float(value) if ok else 0.0


def read_ends(facts: Sequence[Fact]) -> tuple[RankEnd, ...]:
    """Return how ranks ended, from facts of the hub."""
    events = [fact.event for fact in verdict.read_all(facts)]
    return tuple(event.end for event in events if isinstance(event, event_reader.RankEnded))


@dataclass(frozen=True)
class RunOnHost:
    """What one host says of a run, and what that means."""

    row: RunRow
    target: str  # the host's name in the inventory here
    about: RunAbout = RunAbout()
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

    @property
    def has_start(self) -> bool:
        """Whether it knows when the ranks started: those of a queued run may not have."""
        return self.journal.begun or not self.row.waited

    def without_stop(self) -> RunOnHost:
        """Return the same of a run that no user stopped."""
        record = self.record.replace(stopped="")
        return replace(self, row=self.row.replace(record=record))


def checked_name(name: str) -> str:
    """Return the name; raise InputError for one that could be taken for an id."""
    if name and not _NAME.fullmatch(name):
        words = re.findall(r"[A-Za-z0-9._-]+", name)
        valid = _NAME.search("-".join([*["run"] * name[:1].isdigit(), *words]))
        raise InputError(
            f"--name {name!r}: not a valid name for a run",
            why="a name begins with a letter; letters, digits, '.', '_' and '-' may follow, "
            "64 characters at most",
            slug="run-name-invalid",
        ).with_meant(name, valid[0] if valid else "")
    return name


def read_on_host(
    target: str, row: RunRow, known: Callable[[], tuple[Cause, ...]] = tuple
) -> RunOnHost:
    """Return what a host's answer means. `target`: its name in the inventory here; `known` is
    called to interpret the last lines of failed ranks."""
    journal, name = row.journal, row.host
    about = journal.about
    if not _NAME.fullmatch(about.name):  # hosts can say anything
        about = about.replace(name="")
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
