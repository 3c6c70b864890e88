"""Find the TCP connection between ranks that loses data or is not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ipexctl.base.sizes import duration, format_bytes
from ipexctl.run.hang.evidence import Connection, RankLook

LONG = 3.0  # seconds without an acknowledgement
MUCH = 1 << 16  # bytes that have not been read


def find_bad_connection(looks: Mapping[int, RankLook]) -> tuple[list[int], str]:
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
