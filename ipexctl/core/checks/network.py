"""Names and who reaches whom."""

from __future__ import annotations

from collections.abc import Sequence

from ipexctl.core.checks.cluster import Cluster
from ipexctl.core.checks.registry import Sight, cluster_check
from ipexctl.core.facts import loopback, peer_address
from ipexctl.core.inventory import fold
from ipexctl.core.model import Peer, Severity

FULL_MESH = 32
OTHERS = 3


def pairs(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Whom each host tries to reach: all others; above 32 hosts the next one and three more.

    The further ones stand at fixed distances, so that two doctors of one cluster try the same.
    """
    count = len(names)
    if count <= FULL_MESH:
        return {a: tuple(b for b in names if b != a) for a in names}
    steps = [1] + [count * k // (OTHERS + 1) for k in range(1, OTHERS + 1)]
    return {
        name: tuple(names[(i + step) % count] for step in steps) for i, name in enumerate(names)
    }


_WHY = (
    "Every rank opens TCP connections to ranks on other hosts, at ports the kernel chooses. "
    "A training would hang at its first collective."
)


@cluster_check(
    "NET-001",
    title="the host's own name means loopback",
    severity=Severity.WARN,
    seen="the host's own name resolves to loopback. `ipexctl run` names addresses itself",
    why="gloo and some MPIs announce the address of their own name to the other hosts, which then "
    "connect to themselves: connectFullMesh failed, or a silent hang. `ipexctl run` names each "
    "host's address and interface itself, so its runs work; torchrun or mpirun by hand do not.",
)
def own_name(cluster: Cluster) -> list[Sight]:
    """Only where there are others: a host alone may well call itself 127.0.1.1."""
    if len(cluster.hosts) < 2:
        return []
    return [
        Sight(
            f"{facts.net.hostname} resolves to {facts.net.hostname_addresses[0]}",
            host=facts.host,
            fix=f"in /etc/hosts: {peer_address(facts) or 'ADDRESS'} {facts.net.hostname}"
            f"   in place of the line {facts.net.hostname_addresses[0]} {facts.net.hostname}",
        )
        for facts in cluster.hosts
        if facts.net.hostname_addresses and loopback(facts.net.hostname_addresses[0])
    ]


@cluster_check(
    "NET-002",
    title="no other host can open a TCP connection to it",
    severity=Severity.FAIL,
    seen="no other host can open a TCP connection to this one",
    why=_WHY,
)
def nobody_reaches(cluster: Cluster) -> list[Sight]:
    hidden = _hidden(cluster)
    return [
        Sight(
            f"{fold(p.source for p in failed)} to {failed[0].address}: {failed[0].error}",
            host=target,
            fix=_fix(failed[0]),
        )
        for target, failed in hidden.items()
    ]


@cluster_check(
    "NET-003",
    title="cannot open TCP connections to other hosts",
    severity=Severity.FAIL,
    seen="this host cannot open TCP connections to some others",
    why=_WHY,
)
def cannot_reach(cluster: Cluster) -> list[Sight]:
    """Silent about hosts that nobody reaches: they have a finding of their own."""
    hidden = _hidden(cluster)
    bad = [p for p in cluster.peers if not p.ok and p.target not in hidden]
    found = []
    for source in dict.fromkeys(p.source for p in bad):
        failed = [p for p in bad if p.source == source]
        errors: dict[str, list[str]] = {}
        for peer in failed:
            errors.setdefault(peer.error, []).append(peer.target)
        text = "; ".join(f"to {fold(names)}: {error}" for error, names in errors.items())
        found.append(Sight(text, host=source, fix=_fix(failed[0])))
    return found


def _hidden(cluster: Cluster) -> dict[str, list[Peer]]:
    """The hosts that two or more others tried and none reached, with those attempts."""
    tried: dict[str, list[Peer]] = {}
    for peer in cluster.peers:
        tried.setdefault(peer.target, []).append(peer)
    return {
        target: peers
        for target, peers in tried.items()
        if len(peers) > 1 and not any(p.ok for p in peers)
    }


def _fix(peer: Peer) -> str:
    return (
        f"on {peer.source}: ip route get {peer.address}   on {peer.target}: sudo nft list ruleset"
        "   (allow all TCP between the hosts: firewall, security group)"
    )
