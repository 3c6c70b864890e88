"""Find the TCP connection between ranks that loses data or is not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ipexctl.base.sizes import duration, format_bytes
from ipexctl.common.rank_looks import RankConnection, RankLook

LONG = 3.0  # seconds without an acknowledgement
MUCH = 1 << 16  # bytes that have not been read


def find_bad_connection(looks: Mapping[int, RankLook]) -> tuple[list[int], str]:
    """Return the ranks at both ends of the connection that stalls, and a description of it."""
    ends = {link.here: rank for rank, look in looks.items() for link in look.connections}
    bad = [
        (_connection_badness(link), -rank, link)
        for rank, look in looks.items()
        for link in look.connections
        if any(_connection_badness(link))
    ]
    if not bad:
        return [], ""
    _, minus, worst = max(bad, key=lambda entry: entry[:2])
    rank = -minus
    peer = ends.get(worst.peer)
    host, peer_host = (
        looks[rank].host,
        looks[peer].host if peer is not None else _host_with_address(worst, looks),
    )
    if worst.unanswered >= LONG or worst.retransmits:
        lost = (
            f"no answer for {duration(worst.unanswered)}"
            if worst.unanswered >= LONG
            else f"{worst.retransmits} retransmissions"
        )
        text = f"the network from {host} to {peer_host} loses data ({lost})"
    else:
        return [rank], f"{host} does not read {format_bytes(worst.unread)} from {peer_host}"
    shared = _in_all([link for _, _, link in bad], looks)
    ranks = [r for r in (rank, peer) if r is not None]
    if shared and len(bad) > 1:
        ranks = [r for r in looks if looks[r].host == shared]
        text += f"; {shared} is one end of every stalled connection"
    return ranks, text


def _connection_badness(link: RankConnection) -> tuple[bool, float, int, int]:
    lost = link.unanswered if link.unanswered >= LONG else 0.0
    retried = link.retransmits if link.unsent else 0
    unread = link.unread if link.unread >= MUCH else 0
    return bool(lost or retried), lost, retried, unread


def _host_with_address(link: RankConnection, looks: Mapping[int, RankLook]) -> str:
    """Return the host with this address, if only one has it."""
    hosts = {
        look.host
        for look in looks.values()
        for other in look.connections
        if _ip_of(other.here) == _ip_of(link.peer)
    }
    return hosts.pop() if len(hosts) == 1 else link.peer


def _in_all(links: list[RankConnection], looks: Mapping[int, RankLook]) -> str:
    stalled = [link for link in links if _connection_badness(link)[0]]
    owner = {link.here: look.host for look in looks.values() for link in look.connections}
    pairs = [
        {owner.get(c.here, ""), owner.get(c.peer) or _host_with_address(c, looks)} for c in stalled
    ]
    counts = Counter(host for pair in pairs for host in pair if host)
    common = [host for host, n in counts.items() if n == len(pairs)]
    return common[0] if len(common) == 1 and len({frozenset(p) for p in pairs}) > 1 else ""


def _ip_of(address: str) -> str:
    return address.rpartition(":")[0]
