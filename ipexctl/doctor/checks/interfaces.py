"""Network interfaces: addresses, MTU, speed and routes."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from functools import cache

from ipexctl.doctor.checks.duplicate_hosts import machine_identity
from ipexctl.doctor.checks.registry import Evidence, cluster_check, host_check
from ipexctl.doctor.report.cluster import CheckedHosts, group_hosts, hosts_by_value
from ipexctl.doctor.report.finding import Fix, Severity, command, do, scripted_sudo, sudo
from ipexctl.facts.facts import Facts
from ipexctl.facts.host_facts import is_loopback, is_public, peer_address
from ipexctl.facts.interfaces_facts import Nic
from ipexctl.inventory.hostfile_text import fold

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

SEE_ADDRESSES = command("ip -br address")
_MTU = sudo("ip link set NIC mtu 1500")
_VIRTUAL = re.compile(
    r"(docker|virbr|br-|veth|cni|flannel|cali|lxc|lxd|podman|kube|vmnet|dummy|nerdctl|cbr0|incus)"
)


def peer_nic(facts: Facts) -> Nic | None:
    address = peer_address(facts)
    return next((n for n in facts.net.nics if address in n.addresses), None)


@host_check(
    "NET-010",
    title="the loopback interface is down",
    severity=Severity.FAIL,
    seen="lo is not up, or has no address",
    why="Ranks on one host, mpirun and its proxies communicate over loopback.",
    fix=scripted_sudo("ip link set lo up"),
)
def no_loopback(facts: Facts) -> Evidence | None:
    lo = next((n for n in facts.net.nics if n.name == "lo"), None)
    if not lo or (lo.up and any(is_loopback(address) for address in lo.addresses)):
        return None
    return Evidence("lo has no address" if lo.up else "lo is down")


@cluster_check(
    "NET-011",
    title="no network interface except loopback",
    severity=Severity.FAIL,
    seen="one of several hosts has no interface with an address except lo",
    why="`fill_local_host_ip: can't find interface to get host IP`: the other hosts cannot reach "
    "its ranks. Typical of containers without a network.",
    fix=do(
        command("docker run --network host ..."),
        "   or attach the container to a network that the hosts share",
    ),
)
def only_loopback(cluster: CheckedHosts) -> Iterator[Evidence]:
    for facts in cluster.hosts if len(cluster.hosts) > 1 else ():
        outside = [n for n in facts.net.nics if n.up and not all(map(is_loopback, n.addresses))]
        if facts.net.nics and not outside:
            yield Evidence(", ".join(n.name for n in facts.net.nics), host=facts.host)


_OWN_ADDRESS = (
    "give each host an address of its own that the others reach, or leave out all of them but one "
    "if they are one machine (containers)"
)


@cluster_check(
    "NET-012",
    title="several hosts have the same address",
    severity=(Severity.WARN, Severity.NOTE, Severity.FAIL),
    seen="the same address on interfaces of several hosts: fail for one at which the others reach "
    "a host, note for bridges of containers and VMs (docker0, virbr0) and for 169.254.x.y (the "
    "interface to the host's own BMC), warn for any other",
    why="MPI and gloo may choose it, and each host then connects to itself: a silent hang with "
    "ranks at 90 % CPU. `ipexctl run` sets the interface.",
    fix=do(
        "by hand: export FI_TCP_IFACE, GLOO_SOCKET_IFNAME and I_MPI_HYDRA_IFACE (",
        SEE_ADDRESSES,
        ")",
    ),
)
def twins(cluster: CheckedHosts) -> Iterator[Evidence]:
    where: dict[str, list[tuple[str, str]]] = {}
    peers = {peer_address(other) for other in cluster.hosts}
    for facts in cluster.hosts:
        for nic in facts.net.nics:
            for address in nic.addresses if nic.up and nic.name != "lo" else ():
                where.setdefault(address, []).append((facts.host, nic.name))
    for address, places in where.items():
        hosts = {host: 0 for host, _ in places}
        if len(hosts) < 2 or is_loopback(address):
            continue
        names = sorted({name for _, name in places})
        text = f"{address} is {' and '.join(names)} on {fold(hosts)}"
        if address in peers:
            if (
                len({machine_identity(other) for other in cluster.hosts if other.host in hosts}) > 1
            ):  # else: HOST-001
                yield Evidence(text, _OWN_ADDRESS, severity=Severity.FAIL)
            continue
        harmless = _parse_address(address).is_link_local or all(_VIRTUAL.match(n) for n in names)
        yield Evidence(text, severity=Severity.NOTE if harmless else Severity.WARN)


@cluster_check(
    "NET-013",
    title="the hosts' MTUs differ",
    severity=(Severity.WARN, Severity.NOTE),
    seen="the interfaces between the hosts have different MTUs (note: a test showed that large "
    "packets between the hosts arrive)",
    why="Small messages arrive, but large ones are lost if a device in between drops packets "
    "that are too long: the run hangs in its first large all_reduce.",
    fix=do(_MTU, "   # the same on all hosts, and on the switch"),
)
def mtu(cluster: CheckedHosts) -> Evidence | None:
    """Report different MTUs, except where large packets were lost: another check reports that."""
    by_mtu = group_hosts(cluster.hosts, lambda facts: nic.mtu if (nic := peer_nic(facts)) else None)
    if len(by_mtu) < 2 or any(peer.lost for peer in cluster.peers):
        return None
    tried = cluster.peers and all(peer.lost is False for peer in cluster.peers)
    return Evidence(hosts_by_value(by_mtu), severity=Severity.NOTE if tried else None)


SLOW_LINK = 1000  # Mbit/s


@cluster_check(
    "NET-027",
    title="a slow network link",
    severity=Severity.WARN,
    seen=f"the link to the other hosts has less than {SLOW_LINK:,} Mbit/s, or half "
    "duplex (with --level std, PERF-005 shows its throughput)",
    why="Every step sends all gradients over the slowest link: for a model with 100 million "
    "parameters, half a minute at 100 Mbit/s.",
)
def slow_link(cluster: CheckedHosts) -> Iterator[Evidence]:
    for facts in cluster.hosts if len(cluster.hosts) > 1 and not cluster.measured.links else ():
        nic = peer_nic(facts)
        if nic and ((nic.speed and nic.speed < SLOW_LINK) or nic.duplex == "half"):
            yield Evidence(
                f"{nic.name}: {link_speed(nic)}", host=facts.host, fix=look_at_link(nic.name)
            )


@cluster_check(
    "NET-028",
    title="the hosts' link speeds differ",
    severity=Severity.WARN,
    seen="the links between the hosts have different speeds",
    why="In each step, all hosts wait for the one with the slowest link.",
    fix=do(
        "if the hosts share a faster network, use their addresses there (",
        SEE_ADDRESSES,
        ")",
    ),
)
def other_speed(cluster: CheckedHosts) -> Evidence | None:
    """Report different link speeds, except where a check of single hosts reports the slow links."""
    nics = {facts.host: nic for facts in cluster.hosts if (nic := peer_nic(facts)) and nic.speed}
    by_speed = group_hosts(
        cluster.hosts, lambda facts: link_speed(nics[facts.host]) if facts.host in nics else None
    )
    slow = any((nic.speed or SLOW_LINK) < SLOW_LINK for nic in nics.values())
    return Evidence(hosts_by_value(by_speed)) if len(by_speed) > 1 and not slow else None


def link_speed(nic: Nic) -> str:
    """Return the speed in words: "25 Gbit/s" or "100 Mbit/s, half duplex"."""
    speed = nic.speed or 0
    text = f"{speed / 1000:g} Gbit/s" if speed >= 1000 else f"{speed} Mbit/s" if speed else ""
    return ", ".join(filter(None, (text, "half duplex" if nic.duplex == "half" else "")))


def look_at_link(nic: str) -> Fix:
    show = command("ethtool", nic, pipe="grep -E Speed|Duplex")
    return do(show, "   (cable, switch port, virtual machine's limit)")


@host_check(
    "NET-014",
    title="the MTU is very small",
    severity=Severity.WARN,
    seen="an MTU below 1280 on the interface to the other hosts",
    why="Many small packets use only a fraction of the link's bandwidth.",
    fix=_MTU,
)
def small_mtu(facts: Facts) -> Evidence | None:
    nic = peer_nic(facts)
    if not nic or nic.mtu is None or nic.mtu >= 1280:
        return None
    return Evidence(
        f"{nic.name}: {nic.mtu}", fix=scripted_sudo("ip link set", nic.name, "mtu", "1500")
    )


@cluster_check(
    "NET-015",
    title="the route to the other hosts uses another interface",
    severity=Severity.WARN,
    seen="the route to the other hosts is not through the interface that has this host's address",
    why="Replies take a different path than requests: firewalls drop them, or the traffic uses a "
    "slow link. gloo and libfabric are set to the interface of the host's own address.",
)
def other_way(cluster: CheckedHosts) -> Iterator[Evidence]:
    targets: dict[str, list[str]] = {}
    for peer in cluster.peers:
        targets.setdefault(peer.source, []).append(peer.address)
    for facts in cluster.hosts:
        nic = peer_nic(facts)
        wrong = {
            a: ways[0]
            for a in targets.get(facts.host, ())
            if nic and (ways := _interfaces_to(facts, a)) and not {nic.name, "lo"} & set(ways)
        }
        if nic and wrong:
            address, way = next(iter(wrong.items()))
            yield Evidence(
                f"{address} by {way}, own address {peer_address(facts)} on {nic.name}",
                host=facts.host,
                fix=do(
                    command("ip route get", address),
                    f"   and name hosts by their addresses on {way}",
                ),
            )


def _interfaces_to(facts: Facts, address: str) -> list[str]:
    """Return the interfaces of the most specific route to an IPv4 address; [] if it is unknown."""
    target, best, names = _parse_address(address), -1, list[str]()
    for route in facts.net.routes:
        network = parse_network(route.network)
        if not network or target.version != 4 or target not in network:
            continue
        if network.prefixlen >= best:
            names = [*(names if network.prefixlen == best else []), route.nic]
            best = network.prefixlen
    return names


@cache  # many hosts ask about the same few networks
def parse_network(text: str) -> IpNetwork | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


@cache
def _parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(text)


@cluster_check(
    "NET-026",
    title="the host has no address of the family that the others use",
    severity=Severity.FAIL,
    seen="a host without IPv4 among hosts that use IPv4, or without IPv6 among hosts that use IPv6",
    why="IPv4 cannot connect to IPv6, so its ranks and the others would wait for each other.",
)
def other_family(cluster: CheckedHosts) -> Iterator[Evidence]:
    reached = group_hosts(cluster.hosts, lambda f: address_family(peer_address(f)))
    if len(reached) < 2:
        return
    total = sum(map(len, reached.values()))
    for facts in cluster.hosts:
        own, own_family = address_families(facts), address_family(peer_address(facts))
        for family in (str(f) for f in reached if own and f not in own):
            names = reached[family]
            if 2 * len(names) > total - bool(own_family):
                yield Evidence(
                    f"it has {' and '.join(sorted(own))} only; {fold(names)} reached by {family}",
                    host=facts.host,
                    title=f"no {family} address, which the other hosts use",
                    fix=_one_family(cluster, family),
                )


def address_families(facts: Facts) -> set[str]:
    """Return the families, IPv4 and IPv6, of the host's addresses that other hosts can reach."""
    addresses = {a for n in facts.net.nics if n.up for a in n.addresses if not is_loopback(a)}
    return {address_family(a) for a in addresses}


def address_family(address: str) -> str:
    return ("IPv6" if ":" in address else "IPv4") if address else ""


def _one_family(cluster: CheckedHosts, missing: str) -> str:
    """Return what to do about a missing family: use one that all hosts share, or add an address."""
    shared = set.intersection(*(address_families(facts) for facts in cluster.hosts))
    give = f"give it an {missing} address"
    return f"name all hosts by their {min(shared)} addresses, or {give}" if shared else give


@host_check(
    "NET-022",
    title="no default route",
    severity=Severity.NOTE,
    seen="the host has no IPv4 default route",
    why="Training does not need one. Downloads by the script itself (models, data) would fail; "
    "`ipexctl install` sends packages over SSH.",
    fix=do(
        command("ip route"), "   and set HF_HUB_OFFLINE=1 for scripts that check for newer files"
    ),
)
def no_route(facts: Facts) -> Evidence | None:
    if facts.net.default_nic or not facts.net.routes:
        return None
    return Evidence(", ".join(f"{route.network} by {route.nic}" for route in facts.net.routes[:4]))


@host_check(
    "NET-023",
    title="an interface with an address is down",
    severity=Severity.NOTE,
    seen="an address on an interface that is down or has no cable (bridges aside)",
    why="If the hosts should communicate over it, they now use a slower path.",
    fix=do(command("ip -br link"), "   and check the cable and the switch port"),
)
def down(facts: Facts) -> Evidence | None:
    names = [
        f"{n.name} ({n.addresses[0]})"
        for n in facts.net.nics
        if n.addresses and not n.up and n.name != "lo" and not _VIRTUAL.match(n.name)
    ]
    return Evidence(", ".join(names)) if names else None


@host_check(
    "SEC-001",
    title="training traffic would use a public address",
    severity=(Severity.WARN, Severity.NOTE),
    seen="the other hosts reach it at a public address (note: for IPv6, where nearly all are "
    "public)",
    why="gloo and MPI neither authenticate nor encrypt: anyone who reaches their ports can read "
    "gradients or break the run.",
    fix="use the hosts' private addresses, or allow these ports only between the hosts (security "
    "group, firewall)",
)
def public_address(facts: Facts) -> Evidence | None:
    address = peer_address(facts)
    if not is_public(address):
        return None
    return Evidence(address, severity=Severity.NOTE if ":" in address else Severity.WARN)
