"""Diagnose which rank holds up a run, and why, from the looks of all hosts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from ipexctl.base.sizes import duration, fold_numbers, format_bytes
from ipexctl.inventory.nodeset import fold
from ipexctl.run.hang import collective_alignment as alignment
from ipexctl.run.hang.evidence import Connection, RankLook
from ipexctl.run.hang.hang_report import (
    SEVERITY,
    CauseKind,
    Diagnosis,
    Situation,
    situation_from_journals,
)
from ipexctl.run.hang.hang_view import HangView, ended_text
from ipexctl.run.hang.likely_cause import EVERY, FIXED, advise_on_suspect
from ipexctl.run.outcome.listed_runs import ListedRun
from ipexctl.run.outcome.run_result import Stall

LONG = 3.0  # seconds without an acknowledgement
MUCH = 1 << 16  # bytes that have not been read


def diagnose_run(situation: Situation) -> Diagnosis:
    view = HangView.of(situation)
    if situation.quiet is None:
        return view.said(CauseKind.MOVING, (), "the run makes progress")
    for rule in (
        _hosts_cut_off,
        _ranks_left_early,
        _hosts_silent,
        _ranks_stopped,
        _collectives_differ,
        _ranks_late,
        _rendezvous_incomplete,
        _ranks_unlike_others,
        _all_ranks_alike,
    ):
        found = rule(view)
        if found:
            return found
    why = "nothing tells a rank that hangs from those that wait for it"
    return view.said(CauseKind.UNKNOWN, (), f"the reason is unknown: {why}")


def stall_of(run: ListedRun) -> Stall | None:
    """Return what holds up a listed run, or did when it was told to end."""
    if run.stall is None:
        return None
    found = diagnose_run(situation_from_journals(run))
    return Stall(run.stall, found.kind.value, found.headline)


def _hosts_cut_off(view: HangView) -> Diagnosis | None:
    silent = [host for host, _ in view.situation.silent_hosts]
    cuts = [
        c for c in view.situation.cuts if not any(_mentions_host(c[0], host) for host in silent)
    ]
    if not cuts:
        return None
    text, seconds = max(cuts, key=lambda cut: cut[1])
    head = f"the network between hosts is interrupted: {text}"
    likely = f"{text} for {duration(seconds)}. Check switches, cables and firewalls between them."
    return view.said(CauseKind.PARTITION, (), head, likely=likely)


def _mentions_host(text: str, host: str) -> bool:
    return bool(re.search(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", text))


def _ranks_left_early(view: HangView) -> Diagnosis | None:
    awaited = {r for late in view.calls.waits_for.values() for r in late} & view.ended.keys()
    rest = set(view.does) - view.waiting - _joining_ranks(view)
    if not awaited and view.ended and not view.calls.waits_in and not rest:
        awaited = view.ended.keys() & set(view.situation.hosts) or set(view.ended)
    if not awaited or not view.does:
        return None
    how = ended_text(view.ended[min(awaited)])
    head = f"{view.named(awaited)} {how} while others wait"
    fewer = "Likely: it had fewer batches than the others; give all ranks the same number."
    why = fewer if "exit code 0" in how else FIXED[CauseKind.LEFT_EARLY]
    return view.said(CauseKind.LEFT_EARLY, awaited, head, why)


def _hosts_silent(view: HangView) -> Diagnosis | None:
    silent = dict(view.situation.silent_hosts)
    hosts = [host for host in silent if not {*view.on(host)} <= view.ended.keys()]
    if not hosts:
        return None
    ranks = [rank for host in hosts for rank in view.on(host) if rank not in view.ended]
    does = "does not answer" if len(hosts) == 1 else "do not answer"
    head = f"{fold(hosts)} {does} for {duration(max(silent[h] for h in hosts))}"
    why = f"Check whether {fold(hosts)} is up and reachable."
    return view.said(CauseKind.HOST_SILENT, ranks, head, why)


def _ranks_stopped(view: HangView) -> Diagnosis | None:
    ranks = [rank for rank, does in view.does.items() if does.kind is CauseKind.STOPPED]
    return view.of_suspects(ranks) if ranks else None


def _collectives_differ(view: HangView) -> Diagnosis | None:
    found = view.calls.mismatch
    if not any(r in view.waiting for _, ranks in found for r in ranks):
        return None
    (most, many), (other, few) = found[:2]
    first, second = alignment.describe_difference(other, most)
    ends = [
        f"{view.named(ranks)} called {what}"
        + (f" at {at}" if (at := _most_common_place(view, ranks)) else "")
        for ranks, what in ((few, first), (many, second))
    ]
    if other.op != most.op:
        short = alignment.collective_name(other), alignment.collective_name(most)
    else:
        short = first, second
    head = f"{view.named(few)} called {short[0]}, {view.named(many)} {short[1]}"
    others = found if len(few) == len(many) else found[1:]  # equal: either may be wrong
    likely = f"{ends[0]}, {ends[1]}. {FIXED[CauseKind.MISMATCH]}"
    return view.said(CauseKind.MISMATCH, [r for _, own in others for r in own], head, likely=likely)


def _most_common_place(view: HangView, ranks: Iterable[int]) -> str:
    counted = Counter(view.does[rank].where for rank in ranks if rank in view.does)
    return counted.most_common(1)[0][0] if counted else ""


def _ranks_late(view: HangView) -> Diagnosis | None:
    """Diagnose ranks that have not arrived in a collective that others wait in."""
    roots = view.calls.roots() - view.ended.keys()
    if not roots and (cycle := view.calls.cycle()):
        why = "Likely: they call the collectives of different groups in a different order."
        pairs = (f"rank {r} waits in {view.operation(r)}" for r in cycle[:2])
        head = f"ranks {fold_numbers(cycle)} wait for each other: {', '.join(pairs)}"
        return view.said(CauseKind.MISMATCH, cycle, head, why)
    late = {rank for rank in roots if rank not in view.calls.waits_in}
    if not late:
        return None
    behind = [r for r, awaited in view.calls.waits_for.items() if awaited & late]
    call = Counter(alignment.collective_name(view.calls.waits_in[r]) for r in behind).most_common(
        1
    )[0][0]
    have = "has" if len(late) == 1 else "have"
    fact = f"{view.named(late).partition(' (')[0]} {have} not reached {call}. "
    return view.of_suspects(late, fact)


def _joining_ranks(view: HangView) -> set[int]:
    return {rank for rank, does in view.does.items() if does.kind is CauseKind.RENDEZVOUS}


def _rendezvous_incomplete(view: HangView) -> Diagnosis | None:
    """Diagnose a rendezvous, unless other ranks have gone on: then it is late, not the cause."""
    joining = _joining_ranks(view)
    missing = (
        set(view.situation.hosts) or set(range(min(view.situation.world_size, 4096)))
    ) - joining
    if not joining or view.calls.waits_in:
        return None
    tried = Counter(on.peer for r in joining if (on := view.looks[r].blocked_on) and on.peer)
    master = tried.most_common(1)[0][0] if tried else view.situation.master
    at = f" at {master}" if master else ""
    if not missing:
        head = f"all {len(joining)} ranks wait in the rendezvous{at}"
        why = (
            f"Check that {master or 'MASTER_ADDR'} is reachable from every host, that WORLD_SIZE "
            "is right, and that no two ranks have the same RANK (NODE_RANK, GROUP_RANK)."
        )
        return view.said(CauseKind.RENDEZVOUS, (), head, why)
    have = "has" if len(missing) == 1 else "have"
    head = f"{view.named(missing)} {have} not joined the rendezvous{at}"
    first = min(missing, key=lambda r: SEVERITY[view.kind(r)])
    does, why = view.does.get(first), "See its log."
    if does:
        kind = view.kind(first) if does.kind else CauseKind.UNKNOWN
        why = advise_on_suspect(kind, does, view.looks[first], view.situation.hosts.get(first, ""))
    return view.said(CauseKind.RENDEZVOUS, missing, head, why)


def _ranks_unlike_others(view: HangView) -> Diagnosis | None:
    """Diagnose by stacks only: ranks that wait in no exchange, else those unlike most."""
    if view.waiting:
        if view.calls.waits_in and not _has_unrecorded_ranks(view):
            return None
        calls, own = view.calls, set(view.does) - view.waiting
        if calls.waits_in:
            own = {rank for rank in own if not calls.has_arrived(view.looks[rank])}
        if own:
            return view.of_suspects(own)
        return _all_ranks_exchange(view)
    counted = Counter(does.alike for does in view.does.values())
    if len(counted) < 2:
        return None
    (most, count), *_ = counted.most_common(1)
    few = [rank for rank, does in view.does.items() if does.alike != most]
    if count * 2 > len(view.does):
        return view.of_suspects(few)
    kinds = {rank: view.kind(rank) for rank in view.does}
    worst = min(kinds.values(), key=SEVERITY.__getitem__)
    return view.of_suspects([rank for rank, kind in kinds.items() if kind is worst])


def _has_unrecorded_ranks(view: HangView) -> bool:
    """Return whether ranks that are not known to wait in a collective may hold up the others."""
    return bool(set(view.does) - view.calls.waits_in.keys())


def _all_ranks_exchange(view: HangView) -> Diagnosis | None:
    """Diagnose ranks that all wait in exchanges, without a record of which have arrived."""
    ops = Counter(view.does[rank].op for rank in view.waiting)
    known = [op for op in ops if op]
    one_way = bool(known) and all(op in ("recv", "send", "irecv", "isend") for op in known)
    if not (one_way or len(known) > 1) or view.unseen:
        return None
    few = [r for r in view.waiting if view.does[r].op != ops.most_common(1)[0][0]]
    ends = [
        f"{view.named([r for r in view.waiting if view.does[r].op == op])} in {op}"
        f" ({_most_common_place(view, [r for r in view.waiting if view.does[r].op == op])})"
        for op in sorted(known, key=ops.__getitem__)[:2]
    ]
    head = f"the ranks wait in calls that do not match: {', '.join(ends)}"
    unpaired = "Likely: sends and receives are not paired; use isend or batch_isend_irecv."
    why = unpaired if one_way else FIXED[CauseKind.MISMATCH]
    return view.said(CauseKind.MISMATCH, few or view.waiting, head, why)


def _all_ranks_alike(view: HangView) -> Diagnosis | None:
    """Diagnose ranks that all do the same."""
    if not view.does:
        return None
    first = min(view.does)
    does, look = view.does[first], view.looks[first]
    if view.unseen and view.waiting:
        return view.of_suspects(view.unseen)
    if view.waiting and len(view.does) + len(view.ended) < view.situation.world_size:
        head = f"{view.named(view.does)} wait in {view.operation(first)}"
        return view.said(CauseKind.UNKNOWN, (), f"{head}; nothing is known of the others yet")
    if view.waiting:
        stalled = view.calls.waits_in.keys() - view.calls.waits_for.keys()
        return _exchange_stalled(view, min(stalled or view.waiting))
    kind = does.kind or CauseKind.UNKNOWN
    waits = (
        CauseKind.BLOCKED_IO,
        CauseKind.LOCK,
        CauseKind.SLEEPING,
        CauseKind.SPINNING,
        CauseKind.OUTSIDE,
    )
    if len(view.does) == 1 or kind not in waits or (kind is CauseKind.LOCK and look.stacks != "ok"):
        return view.of_suspects(view.does)
    at = f" in {does.where.replace(' in ', ' ')}" if does.where else ""
    head = f"all {len(view.does)} ranks wait{at}: {does.action}"
    return view.said(
        CauseKind.OUTSIDE, view.does, head, likely=advise_on_suspect(kind, does, look, EVERY)
    )


def _exchange_stalled(view: HangView, first: int) -> Diagnosis:
    what = view.operation(first)
    call = view.calls.waits_in.get(first)
    same = [rank for rank in view.waiting if view.operation(rank) == what]
    who = f"all {len(same)} ranks" if len(same) == len(view.does) else view.named(same)
    head = f"{who} {'is' if len(same) == 1 else 'are'} in {what}, and it does not finish"
    if call is None:
        head = f"{who} wait{'s' if len(same) == 1 else ''} in {what}"
    ranks, bad = _bad_connection(view.looks)
    why = f"Likely: {bad}." if bad else FIXED[CauseKind.COLLECTIVE]
    return view.said(CauseKind.COLLECTIVE, ranks, head, why)


def _bad_connection(looks: Mapping[int, RankLook]) -> tuple[list[int], str]:
    """Return the ranks at both ends of the connection that stalls, and a description of it."""
    ends = {c.here: rank for rank, look in looks.items() for c in look.connections}
    found = [
        (_connection_badness(c), -rank, c)
        for rank, look in looks.items()
        for c in look.connections
        if any(_connection_badness(c))
    ]
    if not found:
        return [], ""
    _, minus, worst = max(found, key=lambda one: one[:2])
    rank = -minus
    peer = ends.get(worst.peer)
    here, there = (
        looks[rank].host,
        looks[peer].host if peer is not None else _host_with_address(worst, looks),
    )
    if worst.unanswered >= LONG or worst.retransmits:
        lost = (
            f"no answer for {duration(worst.unanswered)}"
            if worst.unanswered >= LONG
            else f"{worst.retransmits} retransmissions"
        )
        text = f"the network from {here} to {there} loses data ({lost})"
    else:
        return [rank], f"{here} does not read {format_bytes(worst.unread)} from {there}"
    shared = _in_all([c for _, _, c in found], looks)
    ranks = [r for r in (rank, peer) if r is not None]
    if shared and len(found) > 1:
        ranks = [r for r in looks if looks[r].host == shared]
        text += f"; {shared} is one end of every stalled connection"
    return ranks, text


def _connection_badness(c: Connection) -> tuple[bool, float, int, int]:
    lost = c.unanswered if c.unanswered >= LONG else 0.0
    retried = c.retransmits if c.unsent else 0
    unread = c.unread if c.unread >= MUCH else 0
    return bool(lost or retried), lost, retried, unread


def _host_with_address(c: Connection, looks: Mapping[int, RankLook]) -> str:
    """Return the host with this address, if only one has it."""
    hosts = {
        look.host
        for look in looks.values()
        for o in look.connections
        if _ip_of(o.here) == _ip_of(c.peer)
    }
    return hosts.pop() if len(hosts) == 1 else c.peer


def _in_all(found: list[Connection], looks: Mapping[int, RankLook]) -> str:
    stalled = [c for c in found if _connection_badness(c)[0]]
    owner = {c.here: look.host for look in looks.values() for c in look.connections}
    pairs = [
        {owner.get(c.here, ""), owner.get(c.peer) or _host_with_address(c, looks)} for c in stalled
    ]
    counted = Counter(host for pair in pairs for host in pair if host)
    most = [host for host, n in counted.items() if n == len(pairs)]
    return most[0] if len(most) == 1 and len({frozenset(p) for p in pairs}) > 1 else ""


def _ip_of(address: str) -> str:
    return address.rpartition(":")[0]
