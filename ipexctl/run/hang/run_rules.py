"""Recognize what holds up a run, from all ranks. The causes of cause_kinds.py name these rules.

They are tried in the order of the causes. A rule returns None if it does not apply.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from ipexctl.base.sizes import duration, fold_numbers
from ipexctl.inventory.nodeset import fold
from ipexctl.run.hang import collective_alignment as alignment
from ipexctl.run.hang.bad_connection import find_bad_connection
from ipexctl.run.hang.blamed_ranks import find_blamed_ranks, has_unrecorded_ranks
from ipexctl.run.hang.hang_report import Blame, RunFinding
from ipexctl.run.hang.hang_view import HangView, ended_text


def run_moves(view: HangView) -> RunFinding | None:
    return RunFinding("the run makes progress") if view.situation.quiet is None else None


def hosts_are_cut_off(view: HangView) -> RunFinding | None:
    silent = [host for host, _ in view.situation.silent_hosts]
    cuts = [
        c for c in view.situation.cuts if not any(_mentions_host(c[0], host) for host in silent)
    ]
    if not cuts:
        return None
    text, seconds = max(cuts, key=lambda cut: cut[1])
    head = f"the network between hosts is interrupted: {text}"
    return RunFinding(head, before_advice=f"{text} for {duration(seconds)}. ")


def _mentions_host(text: str, host: str) -> bool:
    return bool(re.search(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", text))


def ranks_left_early(view: HangView) -> RunFinding | None:
    """Find ranks that have ended while others wait for them."""
    awaited = {rank for late in view.calls.waits_for.values() for rank in late} & view.ended.keys()
    others = set(view.does) - view.waiting - _joining_ranks(view)
    if not awaited and view.ended and not view.calls.waits_in and not others:
        awaited = view.ended.keys() & set(view.situation.hosts) or set(view.ended)
    if not awaited or not view.does:
        return None
    ending = ended_text(view.ended[min(awaited)])
    advice = "Likely: it had fewer batches than the others; give all ranks the same number."
    head = f"{view.ranks_text(awaited)} {ending} while others wait"
    return RunFinding(head, awaited, advice if "exit code 0" in ending else None)


def hosts_are_silent(view: HangView) -> RunFinding | None:
    silent = dict(view.situation.silent_hosts)
    hosts = [host for host in silent if not {*view.ranks_on(host)} <= view.ended.keys()]
    if not hosts:
        return None
    ranks = [rank for host in hosts for rank in view.ranks_on(host) if rank not in view.ended]
    verb = "does not answer" if len(hosts) == 1 else "do not answer"
    cuts = (s for text, s in view.situation.cuts if any(_mentions_host(text, h) for h in hosts))
    head = f"{fold(hosts)} {verb} for {duration(max([silent[host] for host in hosts] + [*cuts]))}"
    return RunFinding(head, ranks, f"Check whether {fold(hosts)} is up and reachable.")


def ranks_are_stopped(view: HangView) -> Blame | None:
    ranks = [rank for rank in view.does if view.kind(rank).name == "stopped"]
    return Blame(ranks) if ranks else None


def collectives_mismatch(view: HangView) -> RunFinding | None:
    return _different_calls(view) or _calls_in_cycle(view) or _calls_without_partner(view)


def _different_calls(view: HangView) -> RunFinding | None:
    """Find ranks that are in different calls at the same number of a group."""
    mismatch = view.calls.mismatch
    if not any(rank in view.waiting for _, ranks in mismatch for rank in ranks):
        return None
    (usual, majority), (other, minority) = mismatch[:2]
    first, second = alignment.describe_difference(other, usual)
    sides = [
        f"{view.ranks_text(ranks)} called {call}"
        + (f" at {place}" if (place := _most_common_place(view, ranks)) else "")
        for ranks, call in ((minority, first), (majority, second))
    ]
    if other.op != usual.op:
        first, second = alignment.collective_name(other), alignment.collective_name(usual)
    head = f"{view.ranks_text(minority)} called {first}, {view.ranks_text(majority)} {second}"
    equal = len(minority) == len(majority)  # then either side may be wrong
    suspects = mismatch if equal else mismatch[1:]
    ranks = [rank for _, side in suspects for rank in side]
    return RunFinding(head, ranks, before_advice=f"{sides[0]}, {sides[1]}. ")


def _calls_in_cycle(view: HangView) -> RunFinding | None:
    cycle = view.calls.cycle()
    if view.calls.roots() - view.ended.keys() or not cycle:
        return None
    advice = "Likely: they call the collectives of different groups in a different order."
    pairs = (f"rank {rank} waits in {view.operation_text(rank)}" for rank in cycle[:2])
    head = f"ranks {fold_numbers(cycle)} wait for each other: {', '.join(pairs)}"
    return RunFinding(head, cycle, advice)


def _calls_without_partner(view: HangView) -> RunFinding | None:
    """Find ranks that all wait in exchanges, without a record of which have arrived."""
    ops = Counter(view.does[rank].op for rank in view.waiting)
    named = [op for op in ops if op]
    one_way = bool(named) and all(op in ("recv", "send", "irecv", "isend") for op in named)
    recorded = view.calls.waits_in and not has_unrecorded_ranks(view)
    if not (one_way or len(named) > 1) or recorded or find_blamed_ranks(view):
        return None
    minority = [rank for rank in view.waiting if view.does[rank].op != ops.most_common(1)[0][0]]
    examples = [
        f"{view.ranks_text(ranks)} in {op} ({_most_common_place(view, ranks)})"
        for op in sorted(named, key=ops.__getitem__)[:2]
        if (ranks := [rank for rank in view.waiting if view.does[rank].op == op])
    ]
    head = f"the ranks wait in calls that do not match: {', '.join(examples)}"
    advice = "Likely: sends and receives are not paired; use isend or batch_isend_irecv."
    return RunFinding(head, minority or view.waiting, advice if one_way else None)


def _most_common_place(view: HangView, ranks: Iterable[int]) -> str:
    counts = Counter(view.does[rank].where for rank in ranks if rank in view.does)
    return counts.most_common(1)[0][0] if counts else ""


def _joining_ranks(view: HangView) -> set[int]:
    return {rank for rank in view.does if view.kind(rank).name == "rendezvous"}


def key_is_not_set(view: HangView) -> RunFinding | None:
    """Recognize ranks that wait for a key of the store, unless others wait for them."""
    waiting = [rank for rank in view.does if view.kind(rank).name == "store-key"]
    if not waiting or view.waiting:
        return None
    activity = view.does[waiting[0]]
    verb = "waits" if len(waiting) == 1 else "wait"
    place = f" in {activity.where.replace(' in ', ' ')}" if activity.where else ""
    action = activity.action.removeprefix("waiting ")
    others = set(view.does) - set(waiting) | view.unseen
    head = f"{view.ranks_text(waiting)} {verb}{place} {action}, which no rank has set"
    return RunFinding(head, others or waiting)


def rendezvous_is_incomplete(view: HangView) -> RunFinding | None:
    """Recognize a rendezvous that lacks ranks, unless others wait in collectives already."""
    joining = _joining_ranks(view)
    ranks = view.situation.hosts or range(min(view.situation.world_size, 4096))
    missing = set(ranks) - joining
    if not joining or view.calls.waits_in:
        return None
    addresses = Counter(on.peer for r in joining if (on := view.looks[r].blocked_on) and on.peer)
    master = addresses.most_common(1)[0][0] if addresses else view.situation.master
    place = f" at {master}" if master else ""
    if not missing:
        why = (
            f"Check that {master or 'MASTER_ADDR'} is reachable from every host, that WORLD_SIZE "
            "is right, and that no two ranks have the same RANK (NODE_RANK, GROUP_RANK)."
        )
        return RunFinding(f"all {len(joining)} ranks wait in the rendezvous{place}", advice=why)
    verb = "has" if len(missing) == 1 else "have"
    first, why = min(missing, key=view.severity), "See its log."
    if first in view.waiting:
        why = view.causes["unknown"].advice
    elif first in view.does:
        why = view.choose_advice(first, awaited=True)
    head = f"{view.ranks_text(missing)} {verb} not joined the rendezvous{place}"
    return RunFinding(head, missing, why)


def all_ranks_wait_alike(view: HangView) -> RunFinding | None:
    """Recognize ranks that all wait for the same thing, which is not a rank."""
    if len(view.does) < 2 or view.waiting or find_blamed_ranks(view):
        return None
    first = min(view.does)
    activity, kind = view.does[first], view.kind(first)
    maybe_for_ranks = kind.name == "lock" and view.looks[first].stacks != "ok"
    if not kind.outside_if_all or maybe_for_ranks:
        return None
    place = f" in {activity.where.replace(' in ', ' ')}" if activity.where else ""
    head = f"all {len(view.does)} ranks wait{place}: {activity.action}"
    return RunFinding(head, view.does, view.choose_advice(first, awaited=False, every=True), "")


def exchange_is_stalled(view: HangView) -> RunFinding | None:
    """Recognize a collective that all ranks have reached and that does not finish."""
    examined = len(view.does) + len(view.ended)
    if not view.waiting or examined < view.situation.world_size or find_blamed_ranks(view):
        return None
    stalled = view.calls.waits_in.keys() - view.calls.waits_for.keys()
    first = min(stalled or view.waiting)
    operation = view.operation_text(first)
    same = [rank for rank in view.waiting if view.operation_text(rank) == operation]
    subject = f"all {len(same)} ranks" if len(same) == len(view.does) else view.ranks_text(same)
    head = f"{subject} {'is' if len(same) == 1 else 'are'} in {operation}, and it does not finish"
    if first not in view.calls.waits_in:
        head = f"{subject} wait{'s' if len(same) == 1 else ''} in {operation}"
    ranks, problem = find_bad_connection(view.looks)
    return RunFinding(head, ranks, f"Likely: {problem}." if problem else None, ends_wait=True)


def nothing_tells_why(view: HangView) -> RunFinding | None:
    if find_blamed_ranks(view) or (view.does and not view.waiting):
        return None
    if view.waiting:
        head = f"{view.ranks_text(view.does)} wait in {view.operation_text(min(view.does))}"
        return RunFinding(f"{head}; nothing is known of the others yet", advice="")
    why = "nothing tells a rank that hangs from those that wait for it"
    return RunFinding(f"the reason is unknown: {why}", advice="")
