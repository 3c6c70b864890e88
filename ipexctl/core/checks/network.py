"""Names and who reaches whom."""

from __future__ import annotations

from collections.abc import Sequence

from ipexctl.core.checks.cluster import Cluster
from ipexctl.core.facts import loopback, peer_address
from ipexctl.core.inventory import fold
from ipexctl.core.model import Finding, Peer, Severity

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


def own_name(cluster: Cluster) -> list[Finding]:
    """Only where there are others: a host alone may well call itself 127.0.1.1."""
    if len(cluster.hosts) < 2:
        return []
    return [
        Finding(
            id="NET-001",
            severity=Severity.WARN,
            host=facts.host,
            title="the host's own name means loopback",
            evidence=f"{facts.net.hostname} resolves to {facts.net.hostname_addresses[0]}",
            why="gloo and some MPIs announce the address of their own name to the other hosts, "
            "which then connect to themselves: connectFullMesh failed, or a silent hang. "
            "`ipexctl run` names each host's address and interface itself, so its runs work; "
            "torchrun or mpirun by hand do not.",
            fix=f"in /etc/hosts: {peer_address(facts) or 'ADDRESS'} {facts.net.hostname}"
            f"   in place of the line {facts.net.hostname_addresses[0]} {facts.net.hostname}",
        )
        for facts in cluster.hosts
        if facts.net.hostname_addresses and loopback(facts.net.hostname_addresses[0])
    ]


def peers(cluster: Cluster) -> list[Finding]:
    """One finding for a host nobody reaches, else one for each host that fails to reach some."""
    bad = [p for p in cluster.peers if not p.ok]
    tried: dict[str, int] = {}
    for peer in cluster.peers:
        tried[peer.target] = tried.get(peer.target, 0) + 1
    found, hidden = [], set()
    for target in dict.fromkeys(p.target for p in bad):
        failed = [p for p in bad if p.target == target]
        if len(failed) == tried[target] and len(failed) > 1:
            hidden.add(target)
            found.append(_nobody_reaches(target, failed))
    for source in dict.fromkeys(p.source for p in bad):
        failed = [p for p in bad if p.source == source and p.target not in hidden]
        if failed:
            found.append(_cannot_reach(source, failed))
    return found


_WHY = (
    "Every rank opens TCP connections to ranks on other hosts, at ports the kernel chooses. "
    "A training would hang at its first collective."
)


def _nobody_reaches(target: str, failed: list[Peer]) -> Finding:
    return Finding(
        id="NET-002",
        severity=Severity.FAIL,
        host=target,
        title="no other host can open a TCP connection to it",
        evidence=f"{fold(p.source for p in failed)} to {failed[0].address}: {failed[0].error}",
        why=_WHY,
        fix=_fix(failed[0]),
    )


def _cannot_reach(source: str, failed: list[Peer]) -> Finding:
    errors: dict[str, list[str]] = {}
    for peer in failed:
        errors.setdefault(peer.error, []).append(peer.target)
    return Finding(
        id="NET-003",
        severity=Severity.FAIL,
        host=source,
        title="cannot open TCP connections to other hosts",
        evidence="; ".join(f"to {fold(names)}: {error}" for error, names in errors.items()),
        why=_WHY,
        fix=_fix(failed[0]),
    )


def _fix(peer: Peer) -> str:
    return (
        f"on {peer.source}: ip route get {peer.address}   on {peer.target}: sudo nft list ruleset"
        "   (allow all TCP between the hosts: firewall, security group)"
    )
