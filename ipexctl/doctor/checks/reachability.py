"""Reachability: which hosts can connect to which, and whether large packets arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ipexctl.doctor.checks.interfaces import address_families, address_family, peer_nic
from ipexctl.doctor.checks.ports_and_firewalls import firewall_of
from ipexctl.doctor.checks.registry import Evidence, cluster_check
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.finding import Fix, Severity, command, do, ipexctl_command, sudo
from ipexctl.facts.host_facts import peer_address
from ipexctl.facts.reachability_facts import Peer
from ipexctl.inventory.hostfile_text import fold

FULL_MESH = 32
OTHERS = 3


def choose_peers(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the hosts that each host tries to reach: all others; above 32 hosts, four of them.

    They are at fixed distances, so that two runs of doctor try the same.
    """
    count = len(names)
    if count <= FULL_MESH:
        return {source: tuple(target for target in names if target != source) for source in names}
    steps = [1] + [count * k // (OTHERS + 1) for k in range(1, OTHERS + 1)]
    return {
        name: tuple(names[(i + step) % count] for step in steps) for i, name in enumerate(names)
    }


_WHY = (
    "Every rank opens TCP connections to ranks on other hosts, on ports the kernel chooses. "
    "A run would hang at its first collective."
)


@cluster_check(
    "NET-002",
    title="no other host can open a TCP connection to it",
    severity=Severity.FAIL,
    seen="no other host can open a TCP connection to this one",
    why=_WHY,
)
def nobody_reaches(cluster: CheckedHosts) -> list[Evidence]:
    hidden = _unreached_hosts(cluster)
    return [
        Evidence(
            f"{fold(peer.source for peer in failed)} to {failed[0].address}: {failed[0].error}",
            host=target,
            fix=_open_firewall_fix(cluster, failed[0]),
        )
        for target, failed in hidden.items()
    ]


@cluster_check(
    "NET-003",
    title="cannot open TCP connections to other hosts",
    severity=Severity.FAIL,
    seen="this host cannot open TCP connections to some other hosts",
    why=_WHY,
)
def cannot_reach(cluster: CheckedHosts) -> list[Evidence]:
    """Report failed connections, except to hosts that no host reaches: those have a finding."""
    hidden = _unreached_hosts(cluster)
    failures = [p for p in _of_one_family(cluster) if not p.ok and p.target not in hidden]
    by_source: dict[str, list[Peer]] = {}
    for peer in failures:
        by_source.setdefault(peer.source, []).append(peer)
    evidence = []
    for source, failed in by_source.items():
        errors: dict[str, list[str]] = {}
        for peer in failed:
            errors.setdefault(peer.error, []).append(peer.target)
        text = "; ".join(f"to {fold(names)}: {error}" for error, names in errors.items())
        evidence.append(Evidence(text, host=source, fix=_open_firewall_fix(cluster, failed[0])))
    return evidence


@cluster_check(
    "NET-004",
    title="a port next to MASTER_PORT is blocked",
    severity=Severity.WARN,
    seen="connections to a port in 29501-29599 are refused or dropped, while ports the kernel "
    "chooses work",
    why="`The client socket has failed to connect to [..]:29500 (errno: 110)`: rank 0 listens "
    "there, and every rank connects to it first.",
)
def range_closed(cluster: CheckedHosts) -> list[Evidence]:
    closed: dict[str, list[Peer]] = {}
    for peer in _of_one_family(cluster):
        if peer.ok and peer.in_range:
            closed.setdefault(peer.target, []).append(peer)
    return [
        Evidence(
            f"{fold(attempt.source for attempt in failed)} to {failed[0].address}: "
            + ", ".join(sorted({attempt.in_range or "" for attempt in failed})),
            host=target,
            fix=_open_firewall_fix(cluster, failed[0]),
        )
        for target, failed in closed.items()
    ]


@cluster_check(
    "NET-025",
    title="large packets to or from this host are lost",
    severity=Severity.FAIL,
    seen="a new connection carries one byte but not the next 64 KiB; reported for the host that "
    "all failing pairs share",
    why="Something between the hosts (a switch port, bridge, tunnel or VPN) has a smaller MTU than "
    "their interfaces and drops longer packets silently. Connections open, and a run hangs in "
    "its first large all_reduce.",
)
def black_hole(cluster: CheckedHosts) -> Iterator[Evidence]:
    attempts = [p for p in cluster.peers if p.lost is not None]
    rest = [p for p in attempts if p.lost]
    for host in _in_common(attempts):
        related = [p for p in rest if host in (p.source, p.target)]
        rest = [p for p in rest if host not in (p.source, p.target)]
        if related:
            yield _lost_packets_evidence(cluster, [host], related, host)
    if rest:
        hosts = list(dict.fromkeys(name for p in rest for name in (p.source, p.target)))
        evidence = _lost_packets_evidence(cluster, hosts, rest)
        yield replace(evidence, title="large packets between hosts are lost")


def _in_common(attempts: Sequence[Peer]) -> list[str]:
    """Return the hosts to which, or from which, all packets of two or more others were lost.

    If that holds for all hosts, the network between them is to blame, and the list is empty.
    """
    ends: dict[tuple[str, str], list[Peer]] = {}
    for peer in attempts:
        ends.setdefault((peer.source, "sent"), []).append(peer)
        ends.setdefault((peer.target, "got"), []).append(peer)
    lost = {host: 0 for (host, _), way in ends.items() if len(way) > 1 and all(p.lost for p in way)}
    return list(lost) if len(lost) < len({host for host, _ in ends}) else []


def _lost_packets_evidence(
    cluster: CheckedHosts, hosts: Sequence[str], pairs: Sequence[Peer], one: str = ""
) -> Evidence:
    """Return the finding of lost packets: change the MTU on `hosts`; `one` is the host to blame."""
    facts = [f for name in hosts if (f := cluster.facts_of(name))]
    nics = {nic for f in facts if (nic := peer_nic(f))}
    mtus = [nic.mtu for nic in nics if nic.mtu]
    passes = min((pair.passes for pair in pairs if pair.passes), default=None)
    details = [f"packets of {passes} bytes arrive"] if passes else []
    details += [f"the MTU is {', '.join(map(str, sorted(set(mtus))))}"] if mtus else []
    others = fold({n: 0 for pair in pairs for n in (pair.source, pair.target) if n not in hosts})
    routes = ", ".join(f"{pair.source} to {pair.target}" for pair in pairs[:4])
    names = sorted({nic.name for nic in nics})
    set_mtu = sudo("ip link set", names[0] if len(names) == 1 else "NIC", "mtu", str(passes))
    trace = do(command("tracepath -n", pairs[0].address), f"   on {pairs[0].source}: the MTU there")
    where = "" if one else f"   on {fold(hosts)}"
    smaller = passes is not None and all(passes < mtu for mtu in mtus)
    return Evidence(
        "; ".join([f"with {others}" if one else routes, *details]),
        fix=do(set_mtu, f"{where}   (or raise the MTU between the hosts)") if smaller else trace,
        host=one,
    )


def _unreached_hosts(cluster: CheckedHosts) -> dict[str, list[Peer]]:
    """Return the hosts that two or more others tried and none reached, with those attempts."""
    by_target: dict[str, list[Peer]] = {}
    for peer in _of_one_family(cluster):
        by_target.setdefault(peer.target, []).append(peer)
    return {
        target: peers
        for target, peers in by_target.items()
        if len(peers) > 1 and not any(attempt.ok for attempt in peers)
    }


def _of_one_family(cluster: CheckedHosts) -> list[Peer]:
    """Leave out attempts whose source has no address of that family (reported by NET-026), or has
    the target's own address and tried to reach itself (NET-012)."""
    families = {facts.host: address_families(facts) for facts in cluster.hosts}
    reached = {facts.host: peer_address(facts) for facts in cluster.hosts}
    return [
        p
        for p in cluster.peers
        if p.address != reached.get(p.source)
        and (p.ok or not families.get(p.source) or address_family(p.address) in families[p.source])
    ]


def _open_firewall_fix(cluster: CheckedHosts, peer: Peer) -> Fix:
    """Return the fix that lists routes and firewall rules on the hosts that may block."""
    rules = [
        (f"   on {h}: ", firewall_of(cluster.facts_of(h))) for h in _firewalled_hosts(cluster, peer)
    ]
    return do(
        f"on {peer.source}: ",
        command("ip route get", peer.address),
        *(part for rule in rules for part in rule),
        "   (allow all TCP between the hosts: firewall, security group)",
    ) | do(
        "or, where the firewalls let a range of ports in: ",
        ipexctl_command("run", "--ports", "LOW-HIGH", "train.py"),
    )


_BY_ITS_OWN_KERNEL = ("Operation not permitted", "Permission denied")


def _firewalled_hosts(cluster: CheckedHosts, peer: Peer) -> list[str]:
    """Return the hosts whose firewall may block: the end that all failures share; if that is not
    clear, the ends that have a firewall, or both."""
    if peer.error in _BY_ITS_OWN_KERNEL:
        return [peer.source]
    others = [p.ok for p in cluster.peers if p.target == peer.target and p.source != peer.source]
    if others and not any(others):
        return [peer.target]
    if any(others) and not any(p.ok for p in cluster.peers if p.source == peer.source):
        return [peer.source]
    ends = [peer.target, peer.source]
    filtering = [host for host in ends if (facts := cluster.facts_of(host)) and facts.net.firewalls]
    return filtering or ends
