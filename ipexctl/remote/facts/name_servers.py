"""Test whether this host's name servers respond, regardless of /etc/hosts.

Each configured name server is asked for an external name, over UDP, while other facts are read.
"""

import re
import select
import socket
import struct
import time

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable
    from typing import Any


WAIT = 2.0  # seconds to wait for an answer
AGAIN = 1.0  # seconds until the question is repeated: a packet may get lost
MOST_SERVERS = 3  # the C library asks no more
LOCAL = "127.0.0.1"  # the C library's default if none is configured
NUMBER = b"ix"
QUESTION = b"\7example\3org\0\0\1\0\1"  # its IPv4 address
RCODES = {1: "FORMERR", 2: "SERVFAIL", 4: "NOTIMP", 5: "REFUSED"}


def query_name_servers(read: "Callable[[str], str]") -> "list[_Asked]":
    """Send the questions; return [] if the host does not use DNS."""
    hosts = re.search(r"^hosts:(.*)", read("/etc/nsswitch.conf"), re.M)
    if hosts and not {"dns", "resolve"} & set(hosts.group(1).split()):
        return []
    servers = re.findall(r"^nameserver[ \t]+(\S+)", read("/etc/resolv.conf"), re.M)
    return [_Asked(address, bool(servers)) for address in servers[:MOST_SERVERS] or [LOCAL]]


def collect_dns_answers(queries: "list[_Asked]") -> "list[list[Any]]":
    """Return [[address, configured, responds, its error or why it did not respond]]."""
    _receive_answers(queries, AGAIN)
    for query in queries:
        query.ask()
    _receive_answers(queries, WAIT)
    for query in queries:
        query.close()
    return [[query.address, query.configured, query.responds, query.said] for query in queries]


def _receive_answers(queries: "list[_Asked]", limit: float) -> None:
    """Wait for the answers of all queries, each at most `limit` seconds."""
    poll = select.poll()
    waiting = {query.sock.fileno(): query for query in queries if query.sock}
    for fd in waiting:
        poll.register(fd, select.POLLIN)
    while waiting:
        remaining = max(query.sent + limit for query in waiting.values()) - time.monotonic()
        if remaining <= 0:
            return
        for fd, _ in poll.poll(remaining * 1000):
            if waiting[fd].hear():
                poll.unregister(fd)
                waiting.pop(fd).close()


class _Asked:
    """One name server. `sock` is None once it is known whether the server responds."""

    def __init__(self, address: str, configured: bool) -> None:
        self.address, self.configured = address, configured
        self.responds, self.said = False, "no response within %g s" % WAIT
        self.sent = time.monotonic()
        self.sock = None  # type: socket.socket | None
        try:
            numeric = socket.AI_NUMERICHOST
            info = socket.getaddrinfo(address, 53, 0, socket.SOCK_DGRAM, 0, numeric)[0]
            self.sock = socket.socket(info[0], socket.SOCK_DGRAM)
            self.sock.setblocking(False)
            self.sock.connect(info[4])
        except (OSError, UnicodeError) as e:
            self.fail(e)
        self.ask()

    def ask(self) -> None:
        head = NUMBER + struct.pack(">5H", 0x0100, 1, 0, 0, 0)  # recursion desired
        try:
            if self.sock:
                self.sock.send(head + QUESTION)
        except OSError as e:
            self.fail(e)

    def hear(self) -> bool:
        """Read an answer; return whether there is nothing more to wait for."""
        assert self.sock
        try:
            data = self.sock.recv(4096)
        except OSError as e:  # such as: the port is closed
            self.fail(e)
            return True
        if len(data) < 12 or data[:2] != NUMBER:
            return False
        code = data[3] & 15
        self.responds = True
        self.said = "" if code in (0, 3) else RCODES.get(code, "RCODE %d" % code)
        return True

    def fail(self, error: "OSError | UnicodeError") -> None:
        reason = error.strerror if isinstance(error, OSError) else ""
        self.said = reason or str(error)
        self.close()

    def close(self) -> None:
        if self.sock:
            self.sock.close()
            self.sock = None
