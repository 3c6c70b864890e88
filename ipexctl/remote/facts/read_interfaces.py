"""Read the network interfaces, addresses and routes of this host."""

import os
import socket

from ipexctl.common.tolerant_reads import names_in

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable
    from typing import Any


def read_interfaces(read: "Callable[[str], str]", fs: str, live: bool) -> "dict[str, Any]":
    ssh = os.environ.get("SSH_CONNECTION", "").split()
    address, _, zone = (ssh[2] if live and len(ssh) == 4 else "").partition("%")
    routes = read(fs + "/proc/net/route")
    return {
        "hostname": os.uname().nodename,
        "ssh_address": address,
        "ssh_nic": zone,
        "nics": _nics(read) if live else [],
        "default_nic": _default_nic(routes),
        "routes": _routes(routes),
    }


def _nics(read: "Callable[[str], str]") -> "list[list[Any]]":
    """Return [[name, up, mtu, addresses, speed, duplex]] of this network namespace."""
    import fcntl
    import struct

    lines = read("/proc/net/dev").splitlines()[2:]
    names = [line.partition(":")[0].strip() for line in lines]
    addresses = _ipv4()
    for line in read("/proc/net/if_inet6").splitlines():
        words = line.split()
        if len(words) == 6 and words[3] != "20":  # link-local addresses are useless to a launcher
            text = socket.inet_ntop(socket.AF_INET6, bytes(bytearray.fromhex(words[0])))
            addresses.setdefault(words[5], []).append(text)
    nics = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for name in names:
            request = struct.pack("16s24x", name.encode())
            try:
                flags = fcntl.ioctl(sock, 0x8913, request)[16:18]  # SIOCGIFFLAGS
                mtu = fcntl.ioctl(sock, 0x8921, request)[16:20]  # SIOCGIFMTU
            except OSError:
                continue
            up = struct.unpack("H", flags)[0] & 0x41 == 0x41  # IFF_UP, IFF_RUNNING
            texts = addresses.get(name, [])
            nics.append([name, up, struct.unpack("i", mtu)[0], texts] + _own_link(name, read))
    return nics


def _own_link(name: str, read: "Callable[[str], str]") -> "list[Any]":
    """Return the link of an interface, unless /sys shows another network namespace."""
    folder = "/sys/class/net/" + name
    try:
        is_same = str(socket.if_nametoindex(name)) == read(folder + "/ifindex").strip()
    except OSError:
        is_same = False
    return read_link_speed(folder, read) if is_same else [None, ""]


def read_link_speed(folder: str, read: "Callable[[str], str]") -> "list[Any]":
    """Return [Mbit/s or None, full or half or ""] of an interface, or of a bond or VLAN on one.

    The speed that veth and tun report means nothing.
    """
    names = names_in(folder)
    if "device" not in names and not any(n.startswith("lower_") for n in names):
        return [None, ""]
    text = read(folder + "/speed").strip()
    is_known = text.isdigit() and 0 < int(text) < 1 << 31  # -1, also as an unsigned number: unknown
    duplex = read(folder + "/duplex").strip()
    return [int(text) if is_known else None, duplex if duplex in ("full", "half") else ""]


def _ipv4() -> "dict[str, list[str]]":
    """Return all IPv4 addresses by interface, including secondary ones (SIOCGIFCONF)."""
    import array
    import fcntl
    import struct

    space = array.array("B", bytes(64 * 1024))
    size = 40 if struct.calcsize("P") == 8 else 32
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            request = struct.pack("iP", len(space), space.buffer_info()[0])
            length = struct.unpack("iP", fcntl.ioctl(sock, 0x8912, request))[0]
        except OSError:
            return {}
    data = space.tobytes()
    by_name = {}  # type: dict[str, list[str]]
    for position in range(0, length, size):
        name = data[position : position + 16].partition(b"\0")[0].decode("utf-8", "replace")
        address = socket.inet_ntoa(data[position + 20 : position + 24])
        by_name.setdefault(name.partition(":")[0], []).append(address)
    return by_name


def _default_nic(text: str) -> str:
    best = []
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) >= 8 and words[1] == words[7] == "00000000" and int(words[3], 16) & 1:
            best.append((int(words[6]), words[0]))
    return min(best)[1] if best else ""


def _routes(text: str) -> "list[list[str]]":
    """Return [[interface, network]] of the IPv4 routes that are up."""
    routes = []
    for line in text.splitlines()[1:257]:
        words = line.split()
        if len(words) >= 8 and int(words[3], 16) & 1:
            network = socket.inet_ntoa(bytes(bytearray.fromhex(words[1]))[::-1])
            routes.append([words[0], "%s/%d" % (network, bin(int(words[7], 16)).count("1"))])
    return routes
