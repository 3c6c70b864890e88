"""Choose the interface and address that a host uses to reach the others."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from ipexctl.errors import InputError, RunFailed
from ipexctl.facts.host_facts import best_address, link_local, peer_address
from ipexctl.machines.openssh import login_command
from ipexctl.run.plan.launch import PlannedHost

# a user who sets one of these has chosen a network
CHOOSE = frozenset(
    {
        "MASTER_ADDR",
        "GLOO_SOCKET_IFNAME",
        "FI_TCP_IFACE",
        "CCL_KVS_IFACE",
        "UCX_NET_DEVICES",
        "I_MPI_HYDRA_IFACE",
    }
)


def may_choose(nodes: Sequence[PlannedHost], user_variables: AbstractSet[str]) -> bool:
    """Return whether hosts may share several networks, and the user has chosen none of them.

    `user_variables`: the names that the user sets. This runs at each start, so it is quick: False
    is certain, and after True run/network finds out the rest.
    """
    is_chosen = CHOOSE & user_variables or any(node.host.nic for node in nodes)
    if len(nodes) < 2 or is_chosen:
        return False
    # addresses that every host has, such as that of docker0, lead to no other host
    shared = set.intersection(*({*_ipv4_interfaces(node)} for node in nodes))
    return all(
        len({_ipv4_interfaces(node)[ip] for ip in _ipv4_interfaces(node).keys() - shared}) > 1
        for node in nodes
    )


def _ipv4_interfaces(node: PlannedHost) -> dict[str, str]:
    """Return {address: interface} of the interfaces that are up."""
    nics = (nic for nic in node.facts.net.nics if nic.up)
    return {address: nic.name for nic in nics for address in nic.addresses if ":" not in address}


def choose_host_address(node: PlannedHost) -> str:
    """Return the address at which the other hosts reach this one."""
    if node.measured:
        return node.measured.address
    address = _address_of_nic(node) if node.host.nic else peer_address(node.facts)
    if not address:
        raise InputError(
            f"{node.host.name} is this machine, and the other hosts need its address",
            hint="name it by an address or a host name that the others reach over SSH",
            slug="own-address-unknown",
        )
    if link_local(address):
        raise RunFailed(
            f"{node.host.name} is reachable only through a link-local address, {address}, which "
            "the other hosts cannot use",
            why=f"{_of_connection(node)} has no other known address",
            hint=f"assign it one, or name an interface in the hostfile: {node.host.name} nic=IFACE",
            slug="address-link-local",
        )
    return address


def _of_connection(node: PlannedHost) -> str:
    nic = node.facts.net.ssh_nic
    return f"its network interface {nic}" if nic else "its network interface"


def _address_of_nic(node: PlannedHost) -> str:
    """Return the address of the interface that the hostfile names with nic=."""
    nics = {nic.name: nic for nic in node.facts.net.nics}
    if node.host.nic not in nics:
        raise RunFailed(
            f"{node.host.name}: there is no network interface {node.host.nic}",
            why=f"it has {', '.join(nics)}",
            hint=f"correct nic= for {node.host.name} in the hostfile",
            slug="interface-missing",
        )
    address = best_address(nics[node.host.nic].addresses)
    if not address or not nics[node.host.nic].up:
        raise RunFailed(
            f"{node.host.name}: the network interface {node.host.nic} is down or has no address",
            hint=login_command.ssh_to(node.host, f"ip addr show {node.host.nic}"),
            slug="interface-unusable",
        )
    return address


def ipv6_only(node: PlannedHost, name: str) -> bool:
    """Return whether this interface of the host has no IPv4 address."""
    addresses = next((nic.addresses for nic in node.facts.net.nics if nic.name == name), ())
    return bool(addresses) and all(":" in address for address in addresses)


def choose_host_nic(node: PlannedHost) -> str:
    if node.measured:
        return node.measured.nic
    if node.host.nic:
        return node.host.nic
    own_address = choose_host_address(node)
    for interface in node.facts.net.nics:
        if own_address in interface.addresses:
            return interface.name
    raise RunFailed(
        f"{node.host.name}: no network interface has the address {own_address}",
        why="SSH connects to an address that is translated (NAT)",
        hint="ipexctl doctor -v",
        slug="address-without-interface",
    )
