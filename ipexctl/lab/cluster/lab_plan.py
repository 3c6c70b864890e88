"""Plan every name, address and link from a LabSpec and a free block of addresses. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, ip_network
from pathlib import Path

from ipexctl.lab.cluster import rung_limits
from ipexctl.lab.cluster.lab_spec import HostSpec, LabSpec
from ipexctl.quick_dataclass import dataclass

HOME = "/home/trainer"
_FIRST = 11
_PLACES = [ip_network(f"10.{b}.{y}.0/22") for b in range(64, 128) for y in range(0, 256, 4)]


@dataclass(frozen=True)
class LabNic:
    """One network card of a host and its port on the switch."""

    name: str
    port: str
    mac: str
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class LabHostPlan:
    name: str
    address: str
    nics: tuple[LabNic, ...]
    spec: HostSpec
    home: str


@dataclass(frozen=True)
class LabPlan:
    name: str
    user: str
    link: str
    gateway: str
    hosts: tuple[LabHostPlan, ...]
    rung: str = rung_limits.FULL
    port: int = 22
    flat: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()


def find_free_blocks(name: str, taken: Iterable[IPv4Network]) -> Iterator[IPv4Network]:
    """Yield free /22 blocks, starting at one that depends on the lab's name."""
    occupied = tuple(taken)
    start = zlib.crc32(name.encode()) % len(_PLACES)
    for block in _PLACES[start:] + _PLACES[:start]:
        if not any(block.overlaps(network) for network in occupied):
            yield block  # type: ignore[misc]


def plan_lab(spec: LabSpec, block: IPv4Network, rung: str = rung_limits.FULL) -> LabPlan:
    """Plan a lab: card k of host i is at block + k*256 + 11 + i, so each has its own network."""
    first = str(block.network_address).split(".")
    common: dict[str, object] = {
        "name": spec.name,
        "user": "trainer",
        # The link's name contains the block: adding it claims the block for this lab.
        "link": f"ilab{first[1]}-{first[2]}",
        "rung": rung,
    }
    if spec.flat:
        return _plan_flat(spec, block, common)
    hosts = tuple(_plan_host(spec, block, i) for i in range(len(spec.hosts)))
    gateway = f"{_ipv6(block, 1)}/64" if spec.ipv6 else f"{block[1]}/24"
    return LabPlan(gateway=gateway, hosts=hosts, **common)  # type: ignore[arg-type]


def plan_loopback(spec: LabSpec, block: IPv4Network, folder: Path, user: str) -> LabPlan:
    """Plan a flat rung: host i has the address 127.B.Y.11+i, and a folder of the lab."""
    places = [f"127.{str(block[_FIRST + i]).partition('.')[2]}" for i in range(len(spec.hosts))]
    hosts = tuple(
        LabHostPlan(host.name, place, (), host, str(folder / "hosts" / host.name / "home"))
        for host, place in zip(spec.hosts, places, strict=True)
    )
    return LabPlan(spec.name, user, link="", gateway="", hosts=hosts, rung=rung_limits.FLAT)


def _plan_host(spec: LabSpec, block: IPv4Network, i: int) -> LabHostPlan:
    host = spec.hosts[i]
    address, length = (_ipv6, 64) if spec.ipv6 else (_ipv4, 24)
    offsets = [k * 256 + _FIRST + i for k in range(len(host.nics))]
    nics = tuple(
        LabNic(name, f"p{i}n{k}", _mac(block, offset), (f"{address(block, offset)}/{length}",))
        for k, (name, offset) in enumerate(zip(host.nics, offsets, strict=True))
    )
    return LabHostPlan(host.name, address(block, offsets[0]), nics, host, HOME)


def _plan_flat(spec: LabSpec, block: IPv4Network, common: dict[str, object]) -> LabPlan:
    addresses = tuple(str(block[_FIRST + i]) for i in range(spec.flat))
    nic = LabNic("eth0", "p0n0", _mac(block, _FIRST), tuple(f"{a}/22" for a in addresses))
    host = HostSpec(name="flat")
    return LabPlan(
        gateway=f"{block[1]}/22",
        hosts=(LabHostPlan("flat", addresses[0], (nic,), host, HOME),),
        flat=addresses,
        patterns=tuple(f"{_dots(net)}.*" for net in block.subnets(new_prefix=24)),
        **common,  # type: ignore[arg-type]
    )


def _ipv4(block: IPv4Network, offset: int) -> str:
    return str(block[offset])


def _ipv6(block: IPv4Network, offset: int) -> str:
    """Return a unique local address made of the IPv4 one: fd10:64:4::11 for 10.64.4.11."""
    first, second, third, last = str(block[offset]).split(".")
    return f"fd{first}:{second}:{third}::{last}"


def _dots(network: IPv4Network) -> str:
    return str(network[0]).rpartition(".")[0]


def _mac(block: IPv4Network, offset: int) -> str:
    # Made from the address, so that old ARP entries still match a host that returns.
    return "02:1a:" + ":".join(f"{part:02x}" for part in block[offset].packed)
