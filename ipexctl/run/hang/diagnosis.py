"""Diagnose which rank holds up a run, and why, by the table of causes (cause_kinds.py)."""

from __future__ import annotations

from ipexctl.run.hang.blamed_ranks import find_blamed_ranks
from ipexctl.run.hang.cause_kinds import CAUSES, RANK_RULES, CauseKind
from ipexctl.run.hang.evidence import RankLook
from ipexctl.run.hang.hang_report import (
    Blame,
    Diagnosis,
    RunFinding,
    Situation,
    situation_from_journals,
)
from ipexctl.run.hang.hang_view import HangView, evidence_limits
from ipexctl.run.hang.rank_evidence import Activity, RankEvidence
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.outcome.run_result import Stall

MOST_LETTERS = 200  # letters of a headline


def diagnose_run(situation: Situation) -> Diagnosis:
    """Take the first cause whose run rule applies; else what the blamed ranks do, or all ranks."""
    view = HangView.of(situation, CAUSES, classify_activity)
    for cause in CAUSES.values():
        found = cause.run_rule(view) if cause.run_rule else None
        if isinstance(found, RunFinding):
            return _make_diagnosis(view, cause, found)
        if found:
            return _diagnose_blamed_ranks(view, found)
    return _diagnose_blamed_ranks(view, find_blamed_ranks(view) or Blame(view.does))


def stall_of(run: ListedRun) -> Stall | None:
    """Return what holds up a listed run, or did when it was told to end."""
    if run.stall is None:
        return None
    found = diagnose_run(situation_from_journals(run))
    return Stall(run.stall, found.kind.name, found.headline)


def classify_activity(look: RankLook, master: str) -> tuple[CauseKind, Activity]:
    """Return what a rank, a thread or a child process does, by the first rank rule that applies."""
    evidence = RankEvidence.of(look, master)
    return next(
        (CAUSES[name], activity)
        for place, name in RANK_RULES
        if (activity := CAUSES[name].rank_rules[place](evidence))
    )


def _diagnose_blamed_ranks(view: HangView, blame: Blame) -> Diagnosis:
    """Diagnose ranks; the cause is that of the one whose activity explains most."""
    own = sorted(blame.ranks, key=lambda rank: (view.severity(rank), rank))
    first, kind, fact = own[0], view.kind(own[0]), blame.fact
    same = [rank for rank in own if view.kind(rank) is kind]
    if first not in view.does:
        head = f"no evidence from {view.named(same)}, and the others wait"
        found = RunFinding(head, own, "See its log.", f"{fact}{head}. ")
        return _make_diagnosis(view, kind, found)
    does = view.does[first]
    at = f" in {does.where.replace(' in ', ' ')}" if does.where else ""
    be, verb = ("is", kind.verb[0]) if len(same) == 1 else ("are", kind.verb[1])
    action = view.action(first)
    head = f"{view.named(same)} {verb}{at}{':' * bool(at or verb != be)} {action}"
    if len(same) < len(own):
        fact += f"{view.named(same).partition(' (')[0]} {be} {action}. "
    every = not view.waiting and len(own) == len(view.does) > 1
    advice = view.advice(first, awaited=bool(view.waiting), every=every)
    return _make_diagnosis(view, kind, RunFinding(head, own, advice, fact))


def _make_diagnosis(view: HangView, kind: CauseKind, found: RunFinding) -> Diagnosis:
    own = sorted(set(found.ranks), key=lambda rank: (view.severity(rank), rank))
    advice = kind.advice if found.advice is None else found.advice
    before = f"{found.headline}. " if found.before_advice is None else found.before_advice
    head = found.headline
    if len(head) > MOST_LETTERS:
        head = head[: MOST_LETTERS - 1] + "…"
    return Diagnosis(
        kind,
        head,
        suspects=tuple(view.suspect(rank) for rank in own),
        groups=view.groups(() if found.ends_wait else own),
        likely=before + advice if advice else "",
        limits=evidence_limits(view),
    )
