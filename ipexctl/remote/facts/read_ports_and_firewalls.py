"""Read which ports are taken and may be used, and which firewalls are active."""

import os
import re
import socket

from ipexctl.common.tolerant_reads import read_text
from ipexctl.remote.connection.listeners import MASTER_PORT

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable
    from typing import Any


UFW_ENABLED = re.compile(r"""^ENABLED=["']?yes["']?\s*$""", re.I | re.M)


def read_ports_and_firewalls(read: "Callable[[str], str]", fs: str, live: bool) -> "dict[str, Any]":
    ports = read(fs + "/proc/sys/net/ipv4/ip_local_port_range").split()
    return {
        "port_range": [int(n) for n in ports] or None,
        "master_port_busy": _master_port_busy() if live else None,
        "firewalls": find_active_firewalls() if live else [],
    }


def find_active_firewalls() -> "list[str]":
    """Return the firewalls that seem active; only a test connection shows what they permit."""
    firewalls = []
    if os.path.exists("/run/firewalld.pid") or os.path.exists("/run/firewalld"):
        firewalls.append("firewalld")
    if UFW_ENABLED.search(read_text("/etc/ufw/ufw.conf")):
        firewalls.append("ufw")
    if os.path.exists("/etc/systemd/system/sysinit.target.wants/nftables.service"):
        firewalls.append("nftables")
    if _legacy_iptables():
        firewalls.append("iptables")
    return firewalls


def _legacy_iptables() -> bool:
    """Decide whether iptables' old kernel interface has a filter table: nft does not show it.

    Only root can read the names of tables; others see the kernel module, if it is one.
    """
    try:
        with open("/proc/net/ip_tables_names") as f:
            return "filter" in f.read().split()
    except PermissionError:
        return os.path.isdir("/sys/module/iptable_filter")
    except OSError:
        return False


def _master_port_busy() -> "bool | None":
    """Decide whether MASTER_PORT is in use, by binding it without listening."""
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((address, MASTER_PORT))
                return False
        except OSError as e:
            if e.errno == 98:  # EADDRINUSE
                return True
    return None
