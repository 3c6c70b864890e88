"""Read the kernel's table of TCP sockets, and find which of them a process has.

`ss -ti` reads the same counters: netlink's sock_diag, without root. Kernels before 4.1 have none.
"""

import collections
import os
import socket
import struct

from ipexctl.common.tolerant_reads import link_of, names_in, read_text

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterable, Iterator

SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
GET = 18  # TCPDIAG_GETSOCK: of both families, in one walk through the kernel's table
DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
ERROR, DONE = 2, 3
SYN_SENT = 2
# SYN_SENT, ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING
OPEN = 1 << SYN_SENT | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11
AGAIN = 1  # the timer after which bytes are sent again
INFO = 2  # INET_DIAG_INFO: a struct tcp_info
ACKED = 120  # where tcpi_bytes_acked is in it; tcpi_bytes_received follows
HEAD = struct.Struct("=IHHII")
REQUEST = struct.Struct("=xxxB48xI4x")  # struct inet_diag_req: what is asked, in which states
MESSAGE = struct.Struct("=BBBBHH16s16s12x4xIIII")  # struct inet_diag_msg; ports are big-endian
COUNTERS = struct.Struct("=QQ")
BUSY = 168  # tcpi_busy_time, then tcpi_rwnd_limited, in microseconds: since Linux 4.10
UNACKED, LAST_ACK = 24, 56  # segments sent; milliseconds since the other end last answered
# sent, received: None where the kernel does not count them; waiting: bytes that the program has not
# read, and that the other end has not acknowledged; unanswered: for how many seconds; busy: seconds
# in which data was on its way and the other end had room for it, None where that is not counted
Connection = collections.namedtuple(
    "Connection", "key uid inode sent received state retries waiting unanswered busy"
)
MAPPED = b"\0" * 10 + b"\xff\xff"  # an IPv4 address on an IPv6 socket


def list_connections() -> "Iterator[Connection]":
    """Yield a Connection for each open one of this network namespace. Raise OSError."""
    for data in list_sockets(GET, REQUEST.pack(1 << (INFO - 1), OPEN)):
        yield read_connection(data)


def list_sockets(asked: int, body: bytes) -> "Iterator[bytes]":
    """Yield what the kernel says about each socket: messages of the kind `asked`. Raise OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as link:
        link.settimeout(5.0)
        link.send(HEAD.pack(HEAD.size + len(body), asked, DUMP, 1, 0) + body)
        while True:
            for kind, data in split_messages(link.recv(1 << 17)):
                if kind == ERROR:
                    code = -struct.unpack_from("=i", data)[0]
                    raise OSError(code, os.strerror(code))
                if kind == DONE:
                    return
                if kind == asked:
                    yield data


def split_messages(packet: bytes) -> "Iterator[tuple[int, bytes]]":
    offset = 0
    while offset + HEAD.size <= len(packet):
        size, kind, _, _, _ = HEAD.unpack_from(packet, offset)
        if size < HEAD.size:
            return
        yield kind, packet[offset + HEAD.size : offset + size]
        offset += (size + 3) & ~3


def split_attributes(data: bytes, offset: int) -> "Iterator[tuple[int, bytes]]":
    """Yield (kind, value) of the attributes of a message, which begin at the offset."""
    while offset + 4 <= len(data):
        size, kind = struct.unpack_from("=HH", data, offset)
        if size < 4:
            return
        yield kind, data[offset + 4 : offset + size]
        offset += (size + 3) & ~3


def read_connection(data: bytes) -> "Connection":
    family, state, timer, retries, port, peer_port, ip, peer_ip, *tail = MESSAGE.unpack_from(data)
    unread, unsent, uid, inode = tail
    key = (
        format_address(family, ip),
        socket.ntohs(port),
        format_address(family, peer_ip),
        socket.ntohs(peer_port),
    )
    sent = received = busy = None
    repeats = retries if timer == AGAIN else 0
    unanswered = 0.0
    for kind, value in split_attributes(data, MESSAGE.size):
        if kind == INFO and len(value) >= ACKED + COUNTERS.size:
            sent, received = COUNTERS.unpack_from(value, ACKED)
            if state == SYN_SENT:  # each wait for an answer is twice as long as the one before
                unanswered = 2.0**repeats - 1
            elif struct.unpack_from("=I", value, UNACKED)[0]:
                unanswered = struct.unpack_from("=I", value, LAST_ACK)[0] / 1000.0
            if len(value) >= BUSY + COUNTERS.size:
                busy_time, limited_time = COUNTERS.unpack_from(value, BUSY)
                busy = (busy_time - limited_time) * 1e-6
    waiting = (unread, unsent)
    counts = (sent, received, state, repeats, waiting, unanswered, busy)
    return Connection(key, uid, inode, *counts)


def format_address(family: int, address: bytes) -> str:
    if family == socket.AF_INET6 and address[:12] == MAPPED:
        family, address = socket.AF_INET, address[12:]
    return socket.inet_ntop(family, address[: 4 if family == socket.AF_INET else 16])


def own_sockets(pid: int, wrapper: int) -> "set[int]":
    """Return the sockets of a rank that it did not inherit from its wrapper."""
    return inodes_of(pid) - sockets_of(wrapper)


def inodes_of(pid: int) -> "set[int]":
    """Return the sockets of a process and of its descendants."""
    inodes, todo = set(), [pid]
    while todo:
        pid = todo.pop()
        inodes |= sockets_of(pid)
        try:
            for task in os.listdir("/proc/%d/task" % pid):
                with open("/proc/%d/task/%s/children" % (pid, task)) as f:
                    todo.extend(int(word) for word in f.read().split())
        except (OSError, ValueError):
            continue  # it has ended, or the kernel keeps no list of children
    return inodes


def sockets_of(pid: int) -> "set[int]":
    folder = "/proc/%d/fd/" % pid
    links = (link_of(folder + name) for name in names_in(folder))
    return {int(link[8:-1]) for link in links if link.startswith("socket:[")}


def near_networks() -> "list[tuple[int, int]]":
    """Return (number, mask) of the IPv4 networks that this host reaches without a gateway."""
    networks = []
    try:
        for row in map(str.split, read_text("/proc/net/route").splitlines()[1:]):
            if row[2] == "00000000" and row[7] != "00000000":
                networks.append((int(row[1], 16), int(row[7], 16)))
    except (ValueError, IndexError):
        pass
    return networks


def is_in(address: str, networks: "Iterable[tuple[int, int]]") -> bool:
    try:
        number = struct.unpack("=I", socket.inet_aton(address))[0]  # as the table writes it
    except OSError:
        return False  # an IPv6 address
    return any(number & mask == network for network, mask in networks)
