"""Bytes that ranks exchange with each other, from the kernel's counters of their TCP sockets.

`ss -ti` reads the same counters: netlink's sock_diag, without root. A socket that closes between
two looks reports its last numbers in a message of its own. Kernels before 4.1 have no counters.
"""

import os
import re
import socket
import struct
import threading
import time

from ipexctl.remote.connection import unanswered

SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
ERROR, DONE = 2, 3
SYN_SENT = 2
# SYN_SENT, ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT
OPEN = 1 << SYN_SENT | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8
AGAIN = 1  # the timer after which bytes are sent again
CLOSED = 1 << 0 | 1 << 2  # SKNLGRP_INET_TCP_DESTROY, SKNLGRP_INET6_TCP_DESTROY
INFO = 2  # INET_DIAG_INFO: a struct tcp_info
ACKED = 120  # where tcpi_bytes_acked is in it; tcpi_bytes_received follows
HEAD = struct.Struct("=IHHII")
REQUEST = struct.Struct("=BBBxI48x")  # struct inet_diag_req_v2
MESSAGE = struct.Struct("=BBBBHH16s16s12x12xII")  # struct inet_diag_msg; ports are big-endian
COUNTERS = struct.Struct("=QQ")
MAPPED = b"\0" * 10 + b"\xff\xff"  # an IPv4 address on an IPv6 socket

YOUNG = 20.0  # a rank opens its connections within this many seconds of its start, mostly
# seconds between two looks: a rank has just reached the rendezvous, is young, is old
JUST, FIRST, OFTEN, SELDOM = 0.02, 0.1, 0.3, 1.0
MEETING = 2.0  # seconds after the rendezvous in which a group forms
CLOSING = 0.5  # seconds in which the kernel tells of the sockets of a rank that has ended
STRAYS = 256  # connections that opened and closed between two looks, and are reported
LARGEST, KEPT = 32, 256  # links of a rank that are reported and known: those with the most bytes
MAPS_EVERY = 2.0  # seconds, of young ranks; later
MAPS_SELDOM = 30.0
# memory that processes of one host share: dev:inode of what MPI, oneCCL and DeepSpeed map
SHARED = re.compile(rb"^\S+ rw-s \S+ (\S+) (\d+) +(?:/dev/shm/|/memfd:|/SYSV)", re.MULTILINE)
LATEST = 4000  # sockets that closed since the last look; the rest is dropped


class Sockets:
    """The TCP sockets of this network namespace, and what went through each."""

    def __init__(self):
        self.closing = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG)
        self.closing.bind((0, CLOSED))
        self.closing.setblocking(False)

    def close(self):
        self.closing.close()

    def open(self):
        """(key, uid, inode, sent, received, retries) of each, where nothing can be counted yet with
        None; raises OSError."""
        for family in (socket.AF_INET, socket.AF_INET6):
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as link:
                link.settimeout(5.0)
                body = REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (INFO - 1), OPEN)
                link.send(HEAD.pack(HEAD.size + len(body), BY_FAMILY, DUMP, 1, 0) + body)
                more = True
                while more:
                    for kind, data in messages(link.recv(1 << 17)):
                        if kind == ERROR:
                            code = -struct.unpack_from("=i", data)[0]
                            if family == socket.AF_INET6:
                                return  # a kernel without IPv6
                            raise OSError(code, os.strerror(code))
                        if kind == DONE:
                            more = False
                        elif kind == BY_FAMILY:
                            yield read(data)

    def closed(self):
        """The same of those that closed since the last call."""
        for _ in range(LATEST):
            try:
                packet = self.closing.recv(1 << 14)
            except OSError:  # nothing left, or more than the kernel keeps
                return
            for kind, data in messages(packet):
                if kind == BY_FAMILY:
                    yield read(data)


def messages(packet):
    at = 0
    while at + HEAD.size <= len(packet):
        size, kind, _, _, _ = HEAD.unpack_from(packet, at)
        if size < HEAD.size:
            return
        yield kind, packet[at + HEAD.size : at + size]
        at += (size + 3) & ~3


def read(data):
    family, state, timer, retries, here, there, own, other, uid, inode = MESSAGE.unpack_from(data)
    key = (text(family, own), socket.ntohs(here), text(family, other), socket.ntohs(there))
    sent = received = None
    at = MESSAGE.size
    while at + 4 <= len(data):
        size, kind = struct.unpack_from("=HH", data, at)
        if size < 4:
            break
        if kind == INFO and size - 4 >= ACKED + COUNTERS.size:
            sent, received = COUNTERS.unpack_from(data, at + 4 + ACKED)
        at += (size + 3) & ~3
    if state == SYN_SENT:
        sent = received = None
    return key, uid, inode, sent, received, retries if timer == AGAIN else 0


def text(family, address):
    if family == socket.AF_INET6 and address[:12] == MAPPED:
        family, address = socket.AF_INET, address[12:]
    return socket.inet_ntop(family, address[: 4 if family == socket.AF_INET else 16])


class Traffic:
    """Emits `traffic` events: which links of which rank have moved, and to which count.

    A link is (own address, own port, other address, other port); who has its other end the
    controller can tell, which hears of all ranks. `store` is the port of the rendezvous, whose
    connections are left out: every rank has one, also when it exchanges nothing.
    """

    def __init__(self, call, store):
        self.call, self.store = call, store
        self.lock = threading.Lock()
        self.came = threading.Event()  # a rank has started: the next look is due
        self.pids = {}  # rank -> pid
        self.young = 0.0  # until then a look is taken often
        self.owners = {}  # inode -> rank, or None for a socket that is not a rank's
        self.links = {}  # key -> (rank, sent, received)
        self.closed = set()  # keys whose last numbers are known
        self.strays = {}  # key -> (sent, received): whose they were is not known
        self.strays_told = 0
        self.foreign = set()  # keys that other programs had at the last look
        self.ending = 0  # ranks whose last numbers are waited for
        self.met = 0.0  # when a rank last reached the rendezvous
        self.told = {}  # key -> (sent, received) that the controller knows
        self.joined = set()  # ranks that have had a connection to the rendezvous
        self.sharing = []  # [[rank, ...]] that map the same memory
        self.maps_due = 0.0
        self.sockets = None
        self.trouble = ""
        self.unanswered = unanswered.Unanswered()

    def add(self, rank, pid):
        with self.lock:
            self.pids[rank] = pid
            self.young = time.monotonic() + YOUNG
            self.owners = {inode: own for inode, own in self.owners.items() if own is not None}
        self.came.set()

    def remove(self, rank):
        """The rank has ended: its sockets close, and the kernel says so a moment later."""
        deadline = time.monotonic() + CLOSING
        with self.lock:
            self.ending += 1
        while True:
            self.report()
            with self.lock:
                own = {key for key, link in self.links.items() if link[0] == rank}
                if self.trouble or own <= self.closed or time.monotonic() > deadline:
                    self.pids.pop(rank, None)
                    self.ending -= 1
                    return
            time.sleep(0.02)

    def loop(self, over):
        self.report()
        while not over():
            self.came.wait(self.pause())
            self.came.clear()
            self.report()

    def pause(self):
        now = time.monotonic()
        if now < self.met + MEETING:
            return JUST
        if now >= self.young and (self.links or not self.joined):
            return SELDOM
        return OFTEN if self.links else FIRST

    def report(self):
        with self.lock:
            if self.trouble:
                return
            before = (len(self.joined), self.sharing, bool(self.sockets))
            try:
                moved = self.moved()
            except (OSError, struct.error) as e:
                self.trouble = "no TCP counters: %s" % (getattr(e, "strerror", "") or e)
                self.call.emit({"event": "traffic", "trouble": self.trouble})
                return
            self.look_at_memory()
            strays = [list(k) + list(n) for k, n in self.strays.items()][self.strays_told :]
            self.strays_told += len(strays)
            now = (len(self.joined), self.sharing, bool(self.sockets))
            if moved or strays or before != now:
                event = {"event": "traffic", "links": moved, "joined": sorted(self.joined)}
                self.call.emit(dict(event, sharing=self.sharing, strays=strays))

    def look_at_memory(self):
        now = time.monotonic()
        if now < self.maps_due or len(self.pids) < 2:
            return
        self.maps_due = now + (MAPS_EVERY if now < self.young else MAPS_SELDOM)
        by_memory = {}  # type: dict[object, set[int]]
        for rank, pid in self.pids.items():
            for memory in memory_of(pid):
                by_memory.setdefault(memory, set()).add(rank)
        groups = {tuple(sorted(ranks)) for ranks in by_memory.values() if len(ranks) > 1}
        known = {tuple(group) for group in self.sharing}
        if not groups <= known:
            self.sharing = [list(group) for group in sorted(groups | known)][:LARGEST]

    def moved(self):
        if self.sockets is None:
            self.sockets = Sockets()
        found = list(self.sockets.open())
        self.learn(found)
        self.look_for_answers(found)
        for key, _, inode, sent, received, _ in found:
            rank = self.owners.get(inode)
            if not inode and key in self.links and sent is not None:
                rank = self.links[key][0]  # its process has closed it, and bytes are on their way
            if rank is not None and self.store in (key[1], key[3]):
                if rank not in self.joined:
                    self.joined.add(rank)
                    self.met = time.monotonic()
            elif rank is not None:
                if sent is None:
                    raise OSError(0, "this kernel does not count bytes (older than 4.1)")
                self.links[key] = (rank, sent, received)
        foreign = {s[0] for s in found if s[2] and self.owners.get(s[2]) is None}
        strange = self.ending > 0 or time.monotonic() < self.young  # else they are other programs'
        for key, uid, _, sent, received, _ in self.sockets.closed():
            if sent is None or self.store in (key[1], key[3]):
                continue
            if key not in self.links:
                ours = uid in (0, os.getuid())  # 0: older kernels have forgotten
                ours = ours and strange and key not in self.foreign
                if ours and sent and received and len(self.strays) < STRAYS:
                    self.strays[key] = (sent, received)
                continue
            rank, before, _ = self.links[key]
            if sent >= before:  # else the port is used again
                self.links[key] = (rank, sent, received)
            self.closed.add(key)
        self.foreign = foreign
        return self.news()

    def look_for_answers(self, found):
        rows = [(row[0], row[5]) for row in found if self.owners.get(row[2]) is not None]
        event = self.unanswered.report(rows, time.monotonic())
        if event is not None:
            self.call.report(event)

    def learn(self, found):
        """Finds the owners of sockets that are new."""
        own = os.getuid()
        here = {inode for _, uid, inode, _, _, _ in found if inode and uid == own}
        self.owners = {inode: self.owners[inode] for inode in here if inode in self.owners}
        new = here.difference(self.owners)
        if new and self.pids:
            held = {i: rank for rank, pid in self.pids.items() for i in inodes_of(pid)}
            for inode in new:
                self.owners[inode] = held.get(inode)

    def news(self):
        """[[rank, own address, port, other address, port, sent, received]] that have changed."""
        by_rank = {}  # type: dict[int, list[tuple[int, tuple[str, int, str, int]]]]
        for key, (rank, sent, received) in self.links.items():
            by_rank.setdefault(rank, []).append((sent + received, key))
        out = []
        for rank, links in by_rank.items():
            links.sort(reverse=True)
            for _, key in links[KEPT:]:  # connections that come and go for days
                del self.links[key]
                self.told.pop(key, None)
                self.closed.discard(key)
            for _, key in links[:LARGEST]:
                numbers = self.links[key][1:]
                if self.told.get(key) != numbers:
                    self.told[key] = numbers
                    out.append([rank] + list(key) + list(numbers))
        return out

    def close(self):
        with self.lock:
            self.trouble = self.trouble or "over"
            if self.sockets is not None:
                self.sockets.close()


def memory_of(pid):
    try:
        with open("/proc/%d/maps" % pid, "rb") as f:
            return set(SHARED.findall(f.read()))
    except OSError:
        return set()


def inodes_of(pid):
    """The sockets of a process and of those that it started."""
    found, todo = set(), [pid]
    while todo:
        folder = "/proc/%d" % todo.pop()
        try:
            for name in os.listdir(folder + "/fd"):
                try:
                    target = os.readlink("%s/fd/%s" % (folder, name))
                except OSError:
                    continue  # closed meanwhile
                if target.startswith("socket:["):
                    found.add(int(target[8:-1]))
            for task in os.listdir(folder + "/task"):
                with open("%s/task/%s/children" % (folder, task)) as f:
                    todo.extend(int(word) for word in f.read().split())
        except (OSError, ValueError):
            continue  # it has ended, or the kernel keeps no list of children
    return found
