"""Arrange a situation: what each rank does, and which ranks it waits for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ipexctl.base.sizes import fold_numbers
from ipexctl.inventory.nodeset import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.hang import collective_alignment as alignment
from ipexctl.run.hang.collective_alignment import Alignment
from ipexctl.run.hang.evidence import RankLook
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
        known = {rank: classify(look, situation.master) for rank, look in looks.items()}
        kinds = {rank: kind for rank, (kind, _) in known.items()}
        does = {rank: activity for rank, (_, activity) in known.items()}
        waiting, gone = _waiting_ranks(does), frozenset(ended)
        calls = alignment.align_collectives(looks, waiting, gone, situation.world_size)
        return HangView(situation, causes, classify, looks, kinds, does, ended, calls)

    @property
    def waiting(self) -> frozenset[int]:
        return _waiting_ranks(self.does)

    @property
    def unseen(self) -> frozenset[int]:
        return frozenset(self.situation.hosts) - self.looks.keys() - self.ended.keys()

    def on(self, host: str) -> list[int]:
        return [rank for rank, one in self.situation.hosts.items() if one == host]

    def named(self, ranks: Iterable[int]) -> str:
        """Format ranks, such as `rank 5 (node03)`, `ranks 3,5 (node[02-03])`."""
        all_ = sorted(ranks)
        folded = fold(h for r in all_ if (h := self.situation.hosts.get(r, "")))
        one = f"rank{'s' * (len(all_) > 1)} {fold_numbers(all_)}"
        return one + (f" ({folded})" if folded else "")

    def suspect(self, rank: int) -> Suspect:
        host = self.situation.hosts.get(rank, "")
        if rank in self.ended:
            code = self.ended[rank]
            return Suspect(rank, host, "", ended_text(code))
        if rank not in self.does:
            return Suspect(rank, host, "", "no evidence")
        does = self.does[rank]
        return Suspect(
            rank, host, does.where, self.action(rank) + state_and_cpu_text(self.looks[rank])
        )

    def action(self, rank: int) -> str:
        does = self.does[rank]
        return does.action or f"waiting in {self.operation(rank)}"

    def operation(self, rank: int) -> str:
        call, does = self.calls.waits_in.get(rank), self.does[rank]
        if call:
            return alignment.collective_text(call, backward=does.backward)
        unnamed = "a collective in backward" if does.backward else "a collective"
        return does.op or unnamed

    def groups(self, suspects: Iterable[int]) -> tuple[HangGroup, ...]:
        alike = defaultdict[tuple[str, str, bool], list[int]](list)
        for rank, does in self.does.items():
            if rank not in suspects:
                what = self.operation(rank) if does.waits else does.action
                alike[what, does.where, does.waits].append(rank)
        return tuple(
            HangGroup(tuple(ranks), what, where, self._age(ranks), waits)
            for (what, where, waits), ranks in sorted(alike.items(), key=lambda i: -len(i[1]))
        )

    def _age(self, ranks: list[int]) -> float | None:
        calls = [self.calls.waits_in[r] for r in ranks if r in self.calls.waits_in]
        ages = [call.age for call in calls if call.age is not None]
        return max(ages) if ages else self.situation.quiet

    def kind(self, rank: int) -> CauseKind:
        name = "left-early" if rank in self.ended else "unknown"
        return self.causes[name] if rank not in self.kinds else self.kinds[rank]

    def severity(self, rank: int) -> int:
        """Return the place of the cause in the table: the first ones explain the others."""
        return [*self.causes].index(self.kind(rank).name)

    def advice(self, rank: int, *, awaited: bool, every: bool = False) -> str:
        """Return what to do about a rank. `awaited`: others wait for it; `every`: all do this."""
        host, kind = self.situation.hosts.get(rank, ""), self.kind(rank)
        blamed = BlamedRank(self.looks[rank], self.does[rank], host, awaited, every, self.classify)
        return kind.advise(blamed) or blamed.does.advice or kind.advice


def _waiting_ranks(does: Mapping[int, Activity]) -> frozenset[int]:
    return frozenset(rank for rank, activity in does.items() if activity.waits)


def evidence_limits(view: HangView) -> tuple[str, ...]:
    said = list[str]()
    if view.unseen:
        said.append(f"no evidence from {view.named(view.unseen)}")
    whys = {
        "none": "Python was started without ipexctl (--no-inspect, -I)",
        "blocked": "the signal is blocked",
        "silent": "no answer in time",
    }
    for how, why in whys.items():
        if ranks := [rank for rank, look in view.looks.items() if look.stacks == how]:
            said.append(f"no stacks from {view.named(ranks)}: {why}")
    reasons = defaultdict[str, list[int]](list)
    for rank, look in view.looks.items():
        if look.collectives is None and look.collectives_why != "not asked":
            reasons[look.collectives_why or "not recorded"].append(rank)
    said += [
        f"no record of collectives from {view.named(own)}: {why}" for why, own in reasons.items()
    ]
    return tuple(said[:6])


def ended_text(how: str) -> str:
    """Format how a rank ended: `ended with exit code 0`, `was killed by signal 9`."""
    if how.startswith("signal"):
        return f"was killed by {how}"
    return how if how == "ended" else f"ended with {how}"
