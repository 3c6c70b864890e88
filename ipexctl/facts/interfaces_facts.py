"""The network interfaces, addresses and routes of a host."""

from __future__ import annotations

import ipaddress
from dataclasses import field
from typing import Any

from ipexctl.base.values import by, command_safe_name, list_of, plain
from ipexctl.quick_dataclass import dataclass


def read_address(value: Any) -> str:
    """Return an IP address without its zone; "" for anything else."""
    text = plain(value).partition("%")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""


def read_addresses(value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in map(read_address, list_of(value)) if text))


@dataclass(frozen=True)
class Nic:
    name: str = field(metadata=by(command_safe_name, needed=True))
    up: bool
    mtu: int | None
    addresses: tuple[str, ...] = field(metadata=by(read_addresses))
    # Mbit/s; None: not reported, or not that of a cable (veth, tun)
    speed: int | None = None
    duplex: str = ""  # full, half


@dataclass(frozen=True)
class Route:
    nic: str = field(metadata=by(plain, needed=True))
    network: str = field(metadata=by(plain, needed=True))  # 10.0.0.0/24
