"""Decide which ranks are blamed: those that others wait for, or that are unlike most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from ipexctl.run.hang import collective_alignment as alignment
from ipexctl.run.hang.hang_report import Blame
from ipexctl.run.hang.hang_view import HangView


def find_blamed_ranks(view: HangView) -> Blame | None:
    """Return ranks that differ from the others; None if all do the same, or nothing is known."""
    if late := _late_ranks(view):
        return late
    unlike: Set[int] = _ranks_that_do_not_wait(view) if view.waiting else _ranks_unlike_most(view)
    if not unlike and view.waiting:
        unlike = view.unseen
    return Blame(unlike) if unlike else None


def has_unrecorded_ranks(view: HangView) -> bool:
    """Return whether ranks that are not known to wait in a collective may hold up the others."""
    return bool(set(view.does) - view.calls.waits_in.keys())


def _late_ranks(view: HangView) -> Blame | None:
    """Blame ranks that have not arrived in a collective that others wait in."""
    late = view.calls.roots() - view.ended.keys() - view.calls.waits_in.keys()
    if not late:
        return None
    waiting = [rank for rank, awaited in view.calls.waits_for.items() if awaited & late]
    calls = (alignment.collective_name(view.calls.waits_in[rank]) for rank in waiting)
    call = Counter(calls).most_common(1)[0][0]
    verb = "has" if len(late) == 1 else "have"
    return Blame(late, f"{view.ranks_text(late).partition(' (')[0]} {verb} not reached {call}. ")


def _ranks_that_do_not_wait(view: HangView) -> set[int]:
    """Return ranks that wait in no exchange, by their stacks only, unless they have arrived."""
    active, calls = set(view.does) - view.waiting, view.calls
    if not calls.waits_in:
        return active
    if not has_unrecorded_ranks(view):
        return set()
    return {rank for rank in active if not calls.has_arrived(view.looks[rank])}


def _ranks_unlike_most(view: HangView) -> set[int]:
    """Return the minority if there is one, else those whose activity explains most."""
    activities = {
        rank: (view.kind(rank).name, *does.comparison_key) for rank, does in view.does.items()
    }
    counts = Counter(activities.values())
    if len(counts) < 2:
        return set()
    (usual, count), *_ = counts.most_common(1)
    if count * 2 > len(activities):
        return {rank for rank, activity in activities.items() if activity != usual}
    worst = min(map(view.severity, activities))
    return {rank for rank in activities if view.severity(rank) == worst}
