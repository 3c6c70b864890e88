"""Diagnose which rank holds up a run, and why, by the table of causes (cause_kinds.py)."""

from __future__ import annotations

from ipexctl.common.rank_looks import RankLook
from ipexctl.run.hang.blamed_ranks import find_blamed_ranks
from ipexctl.run.hang.cause_kinds import CAUSES, RANK_RULES, CauseKind
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
        finding = cause.run_rule(view) if cause.run_rule else None
        if isinstance(finding, RunFinding):
            return _make_diagnosis(view, cause, finding)
        if finding:
            return _diagnose_blamed_ranks(view, finding)
    return _diagnose_blamed_ranks(view, find_blamed_ranks(view) or Blame(view.does))


def stall_of(run: ListedRun) -> Stall | None:
    """Return what holds up a listed run, or did when it was told to end."""
    diagnosis = diagnose_listed_run(run)
    if diagnosis is None or run.stall is None:
        return None
    return Stall(run.stall, diagnosis.kind.name, diagnosis.headline)


def diagnose_listed_run(run: ListedRun) -> Diagnosis | None:
    """Diagnose a listed run from its journals; None: it makes progress, or did until its end."""
    return None if run.stall is None else diagnose_run(situation_from_journals(run))


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
    ranks = sorted(blame.ranks, key=lambda rank: (view.severity(rank), rank))
    first, kind, fact = ranks[0], view.kind(ranks[0]), blame.fact
    same = [rank for rank in ranks if view.kind(rank) is kind]
    if first not in view.does:
        headline = f"no evidence from {view.ranks_text(same)}, and the others wait"
        finding = RunFinding(headline, ranks, "See its log.", f"{fact}{headline}. ")
        return _make_diagnosis(view, kind, finding)
    activity = view.does[first]
    place = f" in {activity.where.replace(' in ', ' ')}" if activity.where else ""
    be, verb = ("is", kind.verb[0]) if len(same) == 1 else ("are", kind.verb[1])
    action = view.action(first)
    headline = f"{view.ranks_text(same)} {verb}{place}{':' * bool(place or verb != be)} {action}"
    if len(same) < len(ranks):
        fact += f"{view.ranks_text(same).partition(' (')[0]} {be} {action}. "
    every = not view.waiting and len(ranks) == len(view.does) > 1
    advice = view.choose_advice(first, awaited=bool(view.waiting), every=every)
    return _make_diagnosis(view, kind, RunFinding(headline, ranks, advice, fact))


def _make_diagnosis(view: HangView, kind: CauseKind, finding: RunFinding) -> Diagnosis:
    ranks = sorted(set(finding.ranks), key=lambda rank: (view.severity(rank), rank))
    advice = kind.advice if finding.advice is None else finding.advice
    lead = f"{finding.headline}. " if finding.before_advice is None else finding.before_advice
    headline = finding.headline
    if len(headline) > MOST_LETTERS:
        headline = headline[: MOST_LETTERS - 1] + "…"
    return Diagnosis(
        kind,
        headline,
        suspects=tuple(view.make_suspect(rank) for rank in ranks),
        groups=view.group_ranks(() if finding.ends_wait else ranks),
        likely=lead + advice if advice else "",
        limits=evidence_limits(view),
    )
