"""Arrange a situation: what each rank does, which ranks it waits for; format a diagnosis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ipexctl.base.sizes import fold_numbers
from ipexctl.inventory.nodeset import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.hang import collective_alignment as alignment
from ipexctl.run.hang.collective_alignment import Alignment
from ipexctl.run.hang.evidence import RankLook
from ipexctl.run.hang.hang_report import (
    SEVERITY,
    CauseKind,
    Diagnosis,
    HangGroup,
    Situation,
    Suspect,
)
from ipexctl.run.hang.likely_cause import EVERY, HOST, advise_on_suspect
from ipexctl.run.hang.rank_activity import Activity, classify_activity, state_and_cpu_text

MOST_LETTERS = 200  # letters of a headline


@dataclass(frozen=True)
class HangView:
    situation: Situation
    looks: dict[int, RankLook]
    does: dict[int, Activity]
    ended: dict[int, str]
    calls: Alignment

    @staticmethod
    def of(situation: Situation) -> HangView:
        hosts = situation.hosts
        looks = {
            look.rank: look
            for look in situation.looks
            if look.rank < situation.world_size and hosts.get(look.rank, look.host) == look.host
        }
        ended = dict(situation.ended or {})
        ended |= {r: "ended" for r, look in looks.items() if look.state in "ZX" and look.state}
        looks = {rank: look for rank, look in sorted(looks.items()) if rank not in ended}
        does = {rank: classify_activity(look, situation.master) for rank, look in looks.items()}
        waiting = frozenset(rank for rank, done in does.items() if done.kind is None)
        gone = frozenset(ended)
        return HangView(
            situation,
            looks,
            does,
            ended,
            alignment.align_collectives(looks, waiting, gone, situation.world_size),
        )

    @property
    def waiting(self) -> frozenset[int]:
        return frozenset(rank for rank, done in self.does.items() if done.kind is None)

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
                waits = does.kind is None
                what = self.operation(rank) if waits else does.action
                alike[what, does.where, waits].append(rank)
        return tuple(
            HangGroup(tuple(ranks), what, where, self._age(ranks), waits)
            for (what, where, waits), ranks in sorted(alike.items(), key=lambda i: -len(i[1]))
        )

    def _age(self, ranks: list[int]) -> float | None:
        calls = [self.calls.waits_in[r] for r in ranks if r in self.calls.waits_in]
        ages = [call.age for call in calls if call.age is not None]
        return max(ages) if ages else self.situation.quiet

    def said(
        self,
        kind: CauseKind,
        suspects: Iterable[int],
        headline: str,
        advice: str = "",
        likely: str = "",
    ) -> Diagnosis:
        """Make a Diagnosis. `likely`: shown instead of the headline and the advice."""
        own = sorted(set(suspects), key=lambda r: (SEVERITY[self.kind(r)], r))
        shown = tuple(self.suspect(rank) for rank in own)
        likely = likely or (f"{headline}. {advice}" if advice else "")
        headline = headline if len(headline) <= MOST_LETTERS else headline[: MOST_LETTERS - 1] + "…"
        groups = self.groups(() if kind is CauseKind.COLLECTIVE else own)
        return Diagnosis(kind, headline, shown, groups, likely, evidence_limits(self))

    def of_suspects(self, ranks: Iterable[int], fact: str = "") -> Diagnosis:
        """Diagnose the suspects; the kind is that of the one whose activity explains most."""
        own = sorted(ranks, key=lambda r: SEVERITY[self.kind(r)])
        first, kind = own[0], self.kind(own[0])
        same = [rank for rank in own if self.kind(rank) is kind]
        if first not in self.does:
            head = f"no evidence from {self.named(same)}, and the others wait"
            return self.said(kind, own, head, likely=f"{fact}{head}. See its log.")
        does = self.does[first]
        at = f" in {does.where.replace(' in ', ' ')}" if does.where else ""
        be = "is" if len(same) == 1 else "are"
        verb = f"block{'s' * (be == 'is')}" if kind is CauseKind.BLOCKED_IO else be
        what = f"{self.named(same)} {verb}{at}{':' * bool(at or verb != be)} {self.action(first)}"
        if len(same) < len(own):
            fact += f"{self.named(same).partition(' (')[0]} {be} {self.action(first)}. "
        detail = self.situation.hosts.get(first, "")
        if not self.waiting:
            detail = EVERY if len(own) == len(self.does) > 1 else detail if kind in HOST else ""
        likely = f"{fact}{advise_on_suspect(kind, does, self.looks[first], detail)}"
        return self.said(kind, own, what, likely=likely)

    def kind(self, rank: int) -> CauseKind:
        if rank in self.ended:
            return CauseKind.LEFT_EARLY
        return (
            (self.does[rank].kind or CauseKind.MISMATCH) if rank in self.does else CauseKind.UNKNOWN
        )


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
