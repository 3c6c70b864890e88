"""Test whether this host can connect to others."""

import os
import socket
import time

from ipexctl.common.reach_answers import HostsTried, HostTried

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterable

    from ipexctl.remote.main import Call

    Target = tuple[str, str, int]  # name, address, port


def op_connect(
    call: "Call", targets: "list[Target]", timeout: float = 2.0, large: "Iterable[str]" = ()
) -> HostsTried:
    """Try all targets (name, address, port) at once, and send large packets to those named in
    `large`."""
    end = time.monotonic() + timeout
    results, sockets = connect_targets(targets, end, "no answer in %g s" % timeout)
    sent = []
    large = {name: sockets[name] for name in large if name in sockets}
    if large:
        # imported late: install does not need it
        from ipexctl.remote.facts import packet_sizes

        sent = packet_sizes.check_large_packets(large)
    for sock in sockets.values():
        sock.close()
    return HostsTried(results, sent)


def connect_targets(
    targets: "list[Target]", end: float, late: str
) -> "tuple[list[HostTried], dict[str, socket.socket]]":
    """Return what became of each, and the sockets of those that connected, by name."""
    import errno
    import select

    poll = select.poll()
    waiting, sockets = {}, {}
    results = []
    for name, address, port in targets:
        try:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            error = sock.connect_ex((address, port))
        except (OSError, OverflowError, TypeError) as e:
            results.append(HostTried(name, str(e)))
            continue
        if error not in (0, errno.EINPROGRESS):  # no route, say: poll does not report it
            results.append(HostTried(name, os.strerror(error)))
            sock.close()
            continue
        waiting[sock.fileno()] = (name, sock)
        poll.register(sock, select.POLLOUT)
    while waiting and time.monotonic() < end:
        for fd, _ in poll.poll(max(1, int((end - time.monotonic()) * 1000))):
            name, sock = waiting.pop(fd)
            poll.unregister(fd)
            error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            results.append(HostTried(name, os.strerror(error) if error else ""))
            if error:
                sock.close()
            else:
                sockets[name] = sock
    for name, sock in waiting.values():
        results.append(HostTried(name, late))
        sock.close()
    return results, sockets
