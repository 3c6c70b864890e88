"""Which hosts a no_proxy keeps from the proxy, as curl, Python and Go read it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping


def uncovered(no_proxy: str, hosts: Mapping[str, Iterable[str]]) -> list[str]:
    """The hosts of which neither a name nor an address is in it."""
    entries = [_without_port(e.lower()) for e in re.split(r"[,\s]+", no_proxy) if e]
    if "*" in entries:
        return []
    suffixes = tuple("." + e.lstrip("*").lstrip(".") for e in entries if "/" not in e)
    networks = [network for e in entries if "/" in e and (network := _network(e))]
    return [
        host
        for host, names in hosts.items()
        if not any(_covered(name.lower(), suffixes, networks) for name in names if name)
    ]


_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _covered(name: str, suffixes: tuple[str, ...], networks: list[_Network]) -> bool:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return f".{name}".endswith(suffixes)
    return f".{name}" in suffixes or any(address in network for network in networks)


def _without_port(entry: str) -> str:
    """`[fd00::1]:80`, `node01:80` -> the host; an IPv6 address has more than one colon."""
    bare = re.fullmatch(r"\[([^]]*)\](:\d+)?|([^:]*):\d+", entry)
    return (bare[1] or bare[3] or "") if bare else entry


def _network(text: str) -> _Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
