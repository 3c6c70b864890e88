"""Arrange a situation: what each rank does, and which ranks it waits for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ipexctl.base.sizes import rank_text
from ipexctl.common.rank_looks import RankLook
from ipexctl.inventory.nodeset import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.hang import collective_alignment as alignment
from ipexctl.run.hang.collective_alignment import Alignment
from ipexctl.run.hang.hang_report import HangGroup, Situation, Suspect
from ipexctl.run.hang.rank_evidence import Activity, state_and_cpu_text
from ipexctl.run.hang.wait_explanation import Classify

if TYPE_CHECKING:
    from ipexctl.run.hang.cause_kinds import CauseKind


@dataclass(frozen=True)
class BlamedRank:
    """A rank that holds up the run. `awaited`: others wait for it; `every`: all ranks do this."""

    look: RankLook
    does: Activity
    host: str
    awaited: bool
    every: bool
    classify: Classify


@dataclass(frozen=True)
class HangView:
    """A situation, and what each rank does in it according to the table of causes."""

    situation: Situation
    causes: Mapping[str, CauseKind]
    classify: Classify
    looks: dict[int, RankLook]
    kinds: dict[int, CauseKind]
    does: dict[int, Activity]
    ended: dict[int, str]
    calls: Alignment

    @staticmethod
    def of(situation: Situation, causes: Mapping[str, CauseKind], classify: Classify) -> HangView:
        hosts = situation.hosts
        looks = {
            look.rank: look
            for look in situation.looks
            if look.rank < situation.world_size and hosts.get(look.rank, look.host) == look.host
        }
        ended = dict(situation.ended or {})
        ended |= {r: "ended" for r, look in looks.items() if look.state in "ZX" and look.state}
        looks = {rank: look for rank, look in sorted(looks.items()) if rank not in ended}
        classified = {rank: classify(look, situation.master) for rank, look in looks.items()}
        kinds = {rank: kind for rank, (kind, _) in classified.items()}
        does = {rank: activity for rank, (_, activity) in classified.items()}
        waiting, ended_ranks = _waiting_ranks(does), frozenset(ended)
        calls = alignment.align_collectives(looks, waiting, ended_ranks, situation.world_size)
        return HangView(situation, causes, classify, looks, kinds, does, ended, calls)

    @property
    def waiting(self) -> frozenset[int]:
        return _waiting_ranks(self.does)

    @property
    def unseen(self) -> frozenset[int]:
        return frozenset(self.situation.hosts) - self.looks.keys() - self.ended.keys()

    def ranks_on(self, host: str) -> list[int]:
        return [rank for rank, name in self.situation.hosts.items() if name == host]

    def ranks_text(self, ranks: Iterable[int]) -> str:
        """Format ranks, such as `rank 5 (node03)`, `ranks 3,5 (node[02-03])`."""
        ordered = sorted(ranks)
        folded = fold(host for rank in ordered if (host := self.situation.hosts.get(rank, "")))
        return rank_text(ordered) + (f" ({folded})" if folded else "")

    def make_suspect(self, rank: int) -> Suspect:
        host = self.situation.hosts.get(rank, "")
        if rank in self.ended:
            code = self.ended[rank]
            return Suspect(rank, host, "", ended_text(code))
        if rank not in self.does:
            return Suspect(rank, host, "", "no evidence")
        activity = self.does[rank]
        return Suspect(
            rank, host, activity.where, self.action(rank) + state_and_cpu_text(self.looks[rank])
        )

    def action(self, rank: int) -> str:
        activity = self.does[rank]
        return activity.action or f"waiting in {self.operation_text(rank)}"

    def operation_text(self, rank: int) -> str:
        call, activity = self.calls.waits_in.get(rank), self.does[rank]
        if call:
            return alignment.collective_text(call, backward=activity.backward)
        unnamed = "a collective in backward" if activity.backward else "a collective"
        return activity.op or unnamed

    def group_ranks(self, suspects: Iterable[int]) -> tuple[HangGroup, ...]:
        by_activity = defaultdict[tuple[str, str, bool], list[int]](list)
        for rank, activity in self.does.items():
            if rank not in suspects:
                what = self.operation_text(rank) if activity.waits else activity.action
                by_activity[what, activity.where, activity.waits].append(rank)
        return tuple(
            HangGroup(tuple(ranks), what, place, self._longest_wait(ranks), waits)
            for (what, place, waits), ranks in sorted(by_activity.items(), key=lambda i: -len(i[1]))
        )

    def _longest_wait(self, ranks: list[int]) -> float | None:
        calls = [self.calls.waits_in[rank] for rank in ranks if rank in self.calls.waits_in]
        ages = [call.age for call in calls if call.age is not None]
        return max(ages) if ages else self.situation.quiet

    def kind(self, rank: int) -> CauseKind:
        name = "left-early" if rank in self.ended else "unknown"
        return self.causes[name] if rank not in self.kinds else self.kinds[rank]

    def severity(self, rank: int) -> int:
        """Return the place of the cause in the table: the first ones explain the others."""
        return [*self.causes].index(self.kind(rank).name)

    def choose_advice(self, rank: int, *, awaited: bool, every: bool = False) -> str:
        """Return what to do about a rank. `awaited`: others wait for it; `every`: all do this."""
        host, kind = self.situation.hosts.get(rank, ""), self.kind(rank)
        blamed = BlamedRank(self.looks[rank], self.does[rank], host, awaited, every, self.classify)
        return kind.advise(blamed) or blamed.does.advice or kind.advice


def _waiting_ranks(activities: Mapping[int, Activity]) -> frozenset[int]:
    return frozenset(rank for rank, activity in activities.items() if activity.waits)


def evidence_limits(view: HangView) -> tuple[str, ...]:
    limits = list[str]()
    if view.unseen:
        limits.append(f"no evidence from {view.ranks_text(view.unseen)}")
    explanations = {
        "none": "Python was started without ipexctl (--no-inspect, -I)",
        "blocked": "the signal is blocked",
        "silent": "no answer in time",
    }
    for stacks, why in explanations.items():
        if ranks := [rank for rank, look in view.looks.items() if look.stacks == stacks]:
            limits.append(f"no stacks from {view.ranks_text(ranks)}: {why}")
    reasons = defaultdict[str, list[int]](list)
    for rank, look in view.looks.items():
        if look.collectives is None and look.collectives_why != "not asked":
            reasons[look.collectives_why or "not recorded"].append(rank)
    limits += [
        f"no record of collectives from {view.ranks_text(ids)}: {why}"
        for why, ids in reasons.items()
    ]
    return tuple(limits[:6])


def ended_text(ending: str) -> str:
    """Format how a rank ended: `ended with exit code 0`, `was killed by signal 9`."""
    if ending.startswith("signal"):
        return f"was killed by {ending}"
    return ending if ending == "ended" else f"ended with {ending}"
