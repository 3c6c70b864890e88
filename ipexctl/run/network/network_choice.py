"""Find the networks that all hosts have, by their facts, and choose the one for the ranks.

The usual network is the one used by SSH. Another one is chosen if its slowest link is FASTER times
as fast as that of the usual one: a smaller difference may be chance.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network

from ipexctl.base.sizes import bit_rate
from ipexctl.errors import IpexctlError
from ipexctl.facts.interfaces_facts import Nic
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan import interface_choice
from ipexctl.run.plan.launch import NicChoice, PlannedHost

FASTER = 1.5
MOST_NETWORKS = 3  # networks that are measured: more would take too long
ROUTED = "routed"  # name of the usual network if the hosts' addresses are in several
_VIRTUAL = re.compile(
    r"(docker|podman|br-|virbr|veth|cni|flannel|cali|cilium|kube|lxc|lxdbr|vmnet|vboxnet)"
)
Rates = Mapping[str, float]  # network -> bits per second of its slowest link


@dataclass(frozen=True)
class NetworkMember:
    """The interface and address of a host in a network."""

    host: str
    nic: str
    address: str


@dataclass(frozen=True)
class Network:
    name: str  # 10.1.0.0/24
    members: tuple[NetworkMember, ...]  # all hosts that get ranks

    @property
    def cards(self) -> list[str]:
        return [member.nic for member in self.members]

    @property
    def nics(self) -> str:
        return ", ".join(dict.fromkeys(self.cards))

    @property
    def title(self) -> str:
        return f"{self.nics} ({self.name})"


@dataclass(frozen=True)
class NetworkCandidates:
    usual: Network
    others: tuple[Network, ...]
    mark: str  # identifies these hosts since their boot, with the same interfaces

    @property
    def all(self) -> tuple[Network, ...]:
        return (self.usual, *self.others)


@dataclass(frozen=True)
class NetworkChoice:
    candidates: NetworkCandidates
    taken: Network
    rates: Rates

    @property
    def note(self) -> str:
        """The note about the choice; "" if the ranks use the usual network."""
        usual = self.candidates.usual
        if self.taken == usual:
            return ""
        rate, other = self._format_rate(self.taken), self._describe_network(usual)
        return f"ranks use {self.taken.title}: {rate}; {other}"

    def assign_network(self, nodes: Sequence[PlannedHost]) -> list[PlannedHost]:
        """Return the nodes with their interface in the chosen network."""
        if self.taken == self.candidates.usual:
            return list(nodes)
        usual = self._describe_network(self.candidates.usual)
        why = f"the fastest network of all hosts: {self._format_rate(self.taken)}; {usual}"
        choices = {m.host: NicChoice(m.nic, m.address, why) for m in self.taken.members}
        return [replace(node, measured=choices.get(node.host.name)) for node in nodes]

    def list_rows(self) -> list[tuple[str, str, str, str]]:
        """Return rows of interface, network, rate, remark."""
        return [
            (
                network.nics,
                network.name,
                self._format_rate(network),
                ", ".join(self._list_remarks(network)),
            )
            for network in self.candidates.all
        ]

    def document(self) -> list[dict[str, object]]:
        return [
            {
                "network": network.name,
                "interfaces": {member.host: member.nic for member in network.members},
                "bits_per_second": self.rates.get(network.name),
                "ssh": network == self.candidates.usual,
                "used": network == self.taken,
            }
            for network in self.candidates.all
        ]

    def _list_remarks(self, network: Network) -> Iterator[str]:
        if network == self.taken:
            yield "used by the ranks"
        if network == self.candidates.usual:
            yield "used by SSH"

    def _describe_network(self, network: Network) -> str:
        return f"{network.nics}: {self._format_rate(network)}"

    def _format_rate(self, network: Network) -> str:
        rate = self.rates.get(network.name)
        return bit_rate(rate) if rate else "not measured"


def choose_fastest_network(candidates: NetworkCandidates, rates: Rates) -> NetworkChoice:
    """Choose the fastest network, the first of equals. Without the usual one's rate, keep that."""
    usual = rates.get(candidates.usual.name)
    measured = [network for network in candidates.others if rates.get(network.name)]
    best = max(measured, key=lambda network: rates[network.name], default=None)
    better = best and usual and rates[best.name] >= FASTER * usual
    return NetworkChoice(candidates, best if best and better else candidates.usual, rates)


# --- candidates ----------------------------------------------------------------------------------


def find_candidate_networks(nodes: Sequence[PlannedHost]) -> NetworkCandidates | None:
    """Return the networks to choose from; None if there is only one. `nodes`: hosts with ranks."""
    if len(nodes) < 2:
        return None
    try:
        pairs = [
            (interface_choice.choose_host_nic(n), interface_choice.choose_host_address(n))
            for n in nodes
        ]
    except IpexctlError:  # the plan reports it
        return None
    members = [NetworkMember(n.host.name, *pair) for n, pair in zip(nodes, pairs, strict=True)]
    hosts = [_Host(node) for node in nodes]
    names = {host.find_network(member.address) for host, member in zip(hosts, members, strict=True)}
    usual = Network((names.pop() if len(names) == 1 else "") or ROUTED, tuple(members))
    shared = (network for network in _shared_networks(hosts) if network.name != usual.name)
    others = [network for network in shared if network.cards != usual.cards]
    physical = [network for network in others if not _is_virtual(network)]
    others = physical or (others if _is_virtual(usual) else [])
    if not others:
        return None
    others.sort(key=lambda network: -_slowest_speed(network, hosts))
    candidates = (usual, *others[: MOST_NETWORKS - 1])
    return NetworkCandidates(usual, candidates[1:], _networks_mark(candidates, hosts))


class _Host:
    """A host's interfaces that are up, by the IPv4 networks that they are in."""

    def __init__(self, node: PlannedHost) -> None:
        self.node = node
        self.nics = {nic.name: nic for nic in node.facts.net.nics if nic.up}

    @cached_property
    def networks(self) -> dict[str, tuple[str, str]]:
        """Network -> (interface, address); the first of several interfaces in a network."""
        by_network: dict[str, tuple[str, str]] = {}
        for nic in self.nics.values():
            for address in nic.addresses:
                if network := self._find_subnet(nic, address):
                    by_network.setdefault(network, (nic.name, address))
        return by_network

    def find_network(self, address: str) -> str:
        nics = (nic for nic in self.nics.values() if address in nic.addresses)
        return next((self._find_subnet(nic, address) for nic in nics), "")

    def _find_subnet(self, nic: Nic, text: str) -> str:
        """Return the smallest network of the interface that contains this address."""
        try:
            address = IPv4Address(text)
            routed = (r.network for r in self.node.facts.net.routes if r.nic == nic.name)
            subnets = [n for n in map(IPv4Network, routed) if address in n and 0 < n.prefixlen < 32]
        except ValueError:
            return ""
        if address.is_loopback or address.is_link_local or not subnets:
            return ""
        return str(max(subnets, key=lambda network: network.prefixlen))


def _shared_networks(hosts: Sequence[_Host]) -> Iterator[Network]:
    """Yield the networks of all hosts, except those in which two hosts have the same address."""
    for name in hosts[0].networks:
        if all(name in host.networks for host in hosts):
            members = tuple(NetworkMember(h.node.host.name, *h.networks[name]) for h in hosts)
            if len({member.address for member in members}) == len(members):
                yield Network(name, members)


def _is_virtual(network: Network) -> bool:
    return any(_VIRTUAL.match(member.nic) for member in network.members)


def _slowest_speed(network: Network, hosts: Sequence[_Host]) -> int:
    """Return the reported speed of its slowest interface; 0: unknown."""
    pairs = zip(network.members, hosts, strict=True)
    return min(host.nics[member.nic].speed or 0 for member, host in pairs)


def _networks_mark(networks: Sequence[Network], hosts: Sequence[_Host]) -> str:
    """Return a mark that changes if a host reboots or its interfaces change."""
    marks = sorted(
        [
            network.name,
            host.node.host.name,
            host.node.facts.boot_id or "",
            *_interface_mark(host, member),
        ]
        for network in networks
        for member, host in zip(network.members, hosts, strict=True)
    )
    return hashlib.sha256(json.dumps(marks).encode()).hexdigest()[:32]


def _interface_mark(host: _Host, member: NetworkMember) -> list[str]:
    nic = host.nics.get(member.nic)
    card = [nic.mtu, nic.speed, nic.duplex, nic.up] if nic else []
    return [member.nic, member.address, json.dumps(card)]
