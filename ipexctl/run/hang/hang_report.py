"""Classes for a diagnosis: its input and its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ipexctl.common.rank_looks import RankLook
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.hang.evidence import looks_of
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.plan.launch import LaunchPlan

if TYPE_CHECKING:
    from ipexctl.run.hang.cause_kinds import CauseKind

Spans = Sequence[tuple[str, float]]  # what, and for how many seconds


@dataclass(frozen=True)
class Situation:
    """The input of a diagnosis. `quiet`: seconds without progress; None: the run makes progress.
    `silent_hosts` and `cuts` have the seconds since they began."""

    world_size: int
    hosts: Mapping[int, str]
    master: str = ""
    looks: tuple[RankLook, ...] = ()
    ended: Mapping[int, str] | None = None
    quiet: float | None = None
    silent_hosts: tuple[tuple[str, float], ...] = ()
    cuts: tuple[tuple[str, float], ...] = ()


def situation_from_looks(
    plan: LaunchPlan,
    looks: Mapping[str, Iterable[RankLook]],
    ends: Mapping[int, str],
    quiet: float | None,
    silent: Spans = (),
    cuts: Spans = (),
) -> Situation:
    """Make a Situation. `looks`: by host; `ends`: how ranks ended."""
    return Situation(
        world_size=plan.world_size,
        hosts={place.rank: host.host for host in plan.hosts for place in host.ranks},
        master=f"{plan.master_addr}:{plan.master_port}",
        looks=_all_looks(looks),
        ended=dict(ends),
        quiet=quiet,
        silent_hosts=tuple(silent),
        cuts=tuple(cuts),
    )


def situation_from_journals(run: ListedRun) -> Situation:
    """Return the situation of a stalled run, from the journals of its hosts."""
    found = {part.host: part.journal.look for part in run.seen}
    looks = _all_looks({host: look for host, look in found.items() if look is not None})
    hosts = {look.rank: look.host for look in looks}
    return Situation(
        world_size=run.about.ranks,
        hosts={**hosts, **{rank: end.host for rank, end in run.ends.items()}},
        looks=looks,
        ended={rank: end.short for rank, end in run.ends.items()},
        quiet=run.stall,
        cuts=run.cut,
    )


def _all_looks(looks: Mapping[str, Iterable[RankLook]]) -> tuple[RankLook, ...]:
    return tuple(look for host, own in looks.items() for look in looks_of(host, own))


@dataclass(frozen=True)
class Suspect:
    rank: int
    host: str
    where: str  # data.py:88 in __next__
    doing: str  # reading /data/x.arrow, state D, 0 % CPU


@dataclass(frozen=True)
class HangGroup:
    """Ranks that do the same. `waits`: they wait for other ranks, in the operation `what`."""

    ranks: tuple[int, ...]
    what: str
    where: str
    seconds: float | None
    waits: bool = True


@dataclass(frozen=True)
class RunFinding:
    """What a run rule has found. `before_advice`: shown before the advice instead of the headline;
    `advice`: instead of that of the cause. `ends_wait`: the ranks wait like the others."""

    headline: str
    ranks: Iterable[int] = ()
    advice: str | None = None
    before_advice: str | None = None
    ends_wait: bool = False


@dataclass(frozen=True)
class Blame:
    """Ranks that hold up the others, whose own activity tells why. `fact`: how that is known."""

    ranks: Iterable[int]
    fact: str = ""


@dataclass(frozen=True)
class Diagnosis:
    kind: CauseKind
    headline: str
    suspects: tuple[Suspect, ...] = ()
    groups: tuple[HangGroup, ...] = ()
    likely: str = ""
    limits: tuple[str, ...] = ()
