"""Advise on a rank that holds up a run, where that depends on more than what the rank does: on the
others, or on its threads and children. "": the advice of its rank rule or its cause applies."""

from __future__ import annotations

import re

from ipexctl.run.hang.hang_view import BlamedRank
from ipexctl.run.hang.rank_evidence import slowest_worker
from ipexctl.run.hang.rank_rules import NEVER_HAPPENS
from ipexctl.run.hang.wait_explanation import explain_child, explain_rank_wait

_REMOTE = re.compile(r"nfs|cifs|smb|lustre|gpfs|beegfs|ceph|gluster|fuse|9p|orangefs|afs")


def advise_on_blocked(rank: BlamedRank) -> str:
    if rank.does.advice:  # a pipe or a program
        return explain_rank_wait(rank.look, rank.classify)
    target, host = rank.look.blocked_on, "" if rank.every else rank.host
    fs = target.fs if target else ""
    folder = "/" + target.path.split("/")[1] if target and target.path.count("/") > 1 else ""
    place = ", ".join(filter(None, (folder, fs)))
    if not place and host:
        return f"Likely: a disk of {host} does not answer."
    culprit = f"{'the' if rank.every else 'its'} {'file server' if _REMOTE.search(fs) else 'disk'}"
    details = ": ".join(filter(None, (host, place)))
    return f"Likely: {culprit} does not answer" + (f" ({details})." if details else ".")


def advise_on_lock(rank: BlamedRank) -> str:
    return explain_rank_wait(rank.look, rank.classify)


def advise_on_loader(rank: BlamedRank) -> str:
    if "for data loader worker" not in rank.does.action:
        return ""
    return explain_child(rank.look, slowest_worker(rank.look), rank.classify)


def advise_on_computing(rank: BlamedRank) -> str:
    if rank.every:
        return "Nothing hangs: every rank computes. Raise --stall if steps take this long."
    return advise_on_loader(rank)


def advise_on_idle(rank: BlamedRank) -> str:
    """Advise on a rank that sleeps or spins, if no other rank waits for it."""
    return "" if rank.awaited or rank.does.advice else NEVER_HAPPENS
