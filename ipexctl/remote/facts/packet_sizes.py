"""Test whether large packets arrive where connections open: a wrong MTU drops them silently.

The other host's kernel receives and acknowledges packets; no program there needs to read them.
"""

import fcntl
import socket
import struct
import termios
import time

from ipexctl.common.reach_answers import LargePacketsSent

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Mapping
    from typing import Any, TypeVar

    Key = TypeVar("Key")


AMOUNT = 64 << 10
SIZES = (8000, 4000, 1500, 1450, 1400, 1280)  # of packets: common MTUs, the largest first
SECONDS = 2.0  # the kernel repeats what was lost after 0.2 s and then ever later
SIZED = 4  # hosts for which all sizes are tried: if one link is broken, a few show enough


def check_large_packets(sockets: "dict[str, socket.socket]") -> "list[LargePacketsSent]":
    """Send large packets over connected sockets, by the names of their targets."""
    arrived = _watch_arrivals(sockets, SECONDS)
    stuck = [name for name in sockets if arrived.get(name) is False]
    sizes = {name: _largest_arriving(sockets[name].getpeername()) for name in stuck[:SIZED]}
    known = [(name, None if arrived.get(name) is None else name in stuck) for name in sockets]
    return [LargePacketsSent(name, lost, sizes.get(name)) for name, lost in known]


def _watch_arrivals(sockets: "Mapping[Key, socket.socket]", seconds: float) -> "dict[Key, bool]":
    """Return for each name whether the other end received more than a first small packet."""
    sent = {
        name: n for name, n in ((name, _send_packets(s)) for name, s in sockets.items()) if n > 1
    }
    received = {}  # type: dict[Key, int]
    end, pause = time.monotonic() + seconds, 0.001
    while True:
        for name in sent:
            if received.get(name, 0) <= 1:
                received[name] = sent[name] - _unacknowledged_bytes(sockets[name], sent[name])
        if all(n > 1 for n in received.values()) or time.monotonic() >= end:
            return {name: n > 1 for name, n in received.items() if n > 0}
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _send_packets(sock: "socket.socket") -> int:
    """Send a small packet, then as much as fits; return how many bytes the kernel accepted."""
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * AMOUNT)
        return sock.send(b".") + sock.send(bytes(AMOUNT))
    except OSError:
        return 0


def _unacknowledged_bytes(sock: "socket.socket", sent: int) -> int:
    """Return the number of bytes not acknowledged; all of them once the connection broke."""
    if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        return sent
    return int(struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)))[0])


def _largest_arriving(where: "tuple[Any, ...]") -> "int | None":
    """Return the largest packet of SIZES that arrives; None if none does."""
    sockets = {}
    for size in SIZES:
        headers = 60 if ":" in where[0] else 40
        sock = socket.socket(socket.AF_INET6 if ":" in where[0] else socket.AF_INET)
        sockets[size] = sock
        try:
            sock.settimeout(SECONDS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, size - headers)
            sock.connect(where)
        except OSError:
            continue
    arrived = _watch_arrivals(sockets, SECONDS)
    for sock in sockets.values():
        sock.close()
    return next((size for size in SIZES if arrived.get(size)), None)
