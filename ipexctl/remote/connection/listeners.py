"""Listen on ports of this host while a command lasts, for connections from other hosts."""

import os
import socket

from ipexctl.common.port_answers import PortOpened

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.main import Call


_listeners = {}  # type: dict[int, list[socket.socket]]  # by the reported port


MASTER_PORT = 29500  # the default port of torchrun, accelerate and DeepSpeed


def op_listen(call: "Call") -> PortOpened:
    """Listen on a port of all addresses until op_close. The kernel accepts connections on its own.

    Also listen on a port next to MASTER_PORT, for which users open firewalls.
    """
    server = open_listener()
    port = server.getsockname()[1]
    _listeners[port] = [server]
    connection = os.environ.get("SSH_CONNECTION", "").split()
    second = None
    for step in range(8 if len(connection) == 4 else 0):
        try:
            second = open_listener(MASTER_PORT + 1 + (os.getpid() + step * 7) % 99, connection[2])
            _listeners[port].append(second)
            break
        except OSError:
            continue
    return PortOpened(port, second.getsockname()[1] if second else None)


def op_close(call: "Call", port: int) -> None:
    """Close the listeners of one op_listen; a later one may have begun meanwhile."""
    for server in _listeners.pop(port, []):
        try:
            server.shutdown(socket.SHUT_RDWR)  # wakes a thread that accepts
        except OSError:
            pass
        server.close()


def kept_listener(ports: "tuple[int, int] | None" = None) -> "socket.socket":
    """Return a listener that op_close closes. `ports`: the first and the last permitted port."""
    first, count = (ports[0], ports[1] - ports[0] + 1) if ports else (0, 1)
    for step in range(count):
        try:
            server = open_listener(first + (os.getpid() + step) % count if ports else 0)
            break
        except OSError:
            if step == count - 1:
                raise
    _listeners[server.getsockname()[1]] = [server]
    return server


def open_listener(port: int = 0, address: str = "") -> "socket.socket":
    """Listen on `address`, or on all addresses, both IPv4 and IPv6 if the host has both."""
    server = None
    try:
        if address and ":" not in address:
            raise OSError("an IPv4 address")
        server = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind((address or "::", port))
    except OSError:
        if server:
            server.close()
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            server.bind((address or "0.0.0.0", port))
        except OSError:
            server.close()
            raise
    server.listen(128)
    return server
