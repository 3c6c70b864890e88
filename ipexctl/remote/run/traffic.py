"""Bytes that ranks exchange with each other, from the kernel's counters of their TCP sockets.

`ss -ti` reads the same counters: netlink's sock_diag, without root. A socket that closes between
two looks reports its last numbers in a message of its own. Kernels before 4.1 have no counters.
"""

import collections
import os
import re
import socket
import struct
import threading
import time

from ipexctl.remote.connection import tcp_retries

SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
GET = 18  # TCPDIAG_GETSOCK: of both families, in one walk through the kernel's table
BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
ERROR, DONE = 2, 3
SYN_SENT = 2
# SYN_SENT, ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING
OPEN = 1 << SYN_SENT | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11
AGAIN = 1  # the timer after which bytes are sent again
CLOSED = 1 << 0 | 1 << 2  # SKNLGRP_INET_TCP_DESTROY, SKNLGRP_INET6_TCP_DESTROY
INFO = 2  # INET_DIAG_INFO: a struct tcp_info
ACKED = 120  # where tcpi_bytes_acked is in it; tcpi_bytes_received follows
HEAD = struct.Struct("=IHHII")
REQUEST = struct.Struct("=xxxB48xI4x")  # struct inet_diag_req: what is asked, in which states
MESSAGE = struct.Struct("=BBBBHH16s16s12x4xIIII")  # struct inet_diag_msg; ports are big-endian
COUNTERS = struct.Struct("=QQ")
UNACKED, LAST_ACK = 24, 56  # segments that were sent; milliseconds since the other end answered
# sent, received: None where the kernel does not count them; waiting: bytes that the program has not
# read, and that the other end has not acknowledged; unanswered: for how many seconds
Connection = collections.namedtuple(
    "Connection", "key uid inode sent received state retries waiting unanswered"
)
MAPPED = b"\0" * 10 + b"\xff\xff"  # an IPv4 address on an IPv6 socket

YOUNG = 20.0  # a rank opens its connections within this many seconds of its start, mostly
# seconds between two looks: a rank has just reached the rendezvous, is young, is old
JUST, FIRST, OFTEN, SELDOM = 0.02, 0.1, 0.3, 1.0
MEETING = 2.0  # seconds after the rendezvous in which a group forms
CLOSING = 0.5  # seconds in which the kernel tells of the sockets of a rank that has ended
STRAYS = 1024  # connections that opened and closed between two looks: the latest are kept
NOT_YET = -1  # the owner of a socket that no rank had at one look
BUFFER = 4 << 20  # bytes of messages about closed sockets that may wait, if the kernel allows it
LARGEST, KEPT = 32, 256  # links of a rank that are reported and known: those with the most bytes
MAPS_EVERY = 2.0  # seconds, of young ranks; later
MAPS_SELDOM = 10.0
# memory that processes of one host share: dev:inode of what MPI, oneCCL and DeepSpeed map
SHARED = re.compile(rb"^\S+ rw-s \S+ (\S+) (\d+) +(?:/dev/shm/|/memfd:|/SYSV)", re.MULTILINE)
RDMA = re.compile(rb" (?:/dev/infiniband/uverbs|/dev/hfi1_|/dev/cxi)\d", re.MULTILINE)
LATEST = 4000  # sockets that closed since the last look; the rest is dropped


class Sockets:
    """The TCP sockets of this network namespace, and what went through each."""

    def __init__(self):
        self.closing = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG)
        self.closing.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self.closing.bind((0, CLOSED))
        self.closing.setblocking(False)
        self.missed = False  # the kernel had more to tell than it keeps

    def close(self):
        self.closing.close()

    @staticmethod
    def open():
        """A Connection for each; raises OSError."""
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as link:
            link.settimeout(5.0)
            body = REQUEST.pack(1 << (INFO - 1), OPEN)
            link.send(HEAD.pack(HEAD.size + len(body), GET, DUMP, 1, 0) + body)
            while True:
                for kind, data in messages(link.recv(1 << 17)):
                    if kind == ERROR:
                        code = -struct.unpack_from("=i", data)[0]
                        raise OSError(code, os.strerror(code))
                    if kind == DONE:
                        return
                    if kind == GET:
                        yield read(data)

    def closed(self):
        """The same of those that closed since the last call."""
        for _ in range(LATEST):
            try:
                packet = self.closing.recv(1 << 14)
            except BlockingIOError:
                return
            except OSError:
                self.missed = True
                continue
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
    family, state, timer, retries, here, there, own, other, *rest = MESSAGE.unpack_from(data)
    unread, unsent, uid, inode = rest
    key = (text(family, own), socket.ntohs(here), text(family, other), socket.ntohs(there))
    sent = received = None
    repeats = retries if timer == AGAIN else 0
    unanswered = 0.0
    at = MESSAGE.size
    while at + 4 <= len(data):
        size, kind = struct.unpack_from("=HH", data, at)
        if size < 4:
            break
        if kind == INFO and size - 4 >= ACKED + COUNTERS.size:
            sent, received = COUNTERS.unpack_from(data, at + 4 + ACKED)
            if state == SYN_SENT:  # each wait for an answer is twice as long as the one before
                unanswered = 2.0**repeats - 1
            elif struct.unpack_from("=I", data, at + 4 + UNACKED)[0]:
                unanswered = struct.unpack_from("=I", data, at + 4 + LAST_ACK)[0] / 1000.0
        at += (size + 3) & ~3
    waiting = (unread, unsent)
    return Connection(key, uid, inode, sent, received, state, repeats, waiting, unanswered)


def text(family, address):
    if family == socket.AF_INET6 and address[:12] == MAPPED:
        family, address = socket.AF_INET, address[12:]
    return socket.inet_ntop(family, address[: 4 if family == socket.AF_INET else 16])


class Traffic:
    """Emits `traffic` events: which links of which rank have moved, and to which count.

    A link is (own address, own port, other address, other port); who has its other end, and which
    links lead to the rendezvous, the controller can tell, which hears of all ranks. `store`: the
    port of the rendezvous, so that looks are frequent when a rank has reached it.
    """

    def __init__(self, call, store):
        self.call, self.store = call, store
        self.lock = threading.Lock()
        self.came = threading.Event()  # a rank has started: the next look is due
        self.pids = {}  # rank -> pid
        self.wrappers = {}  # rank -> pid; what it has from MPI, its rank has from it
        self.since = {}  # rank -> when it started
        self.shortest = None  # seconds that the rank which ended first was watched
        self.young = 0.0  # until then a look is taken often
        self.held = set()  # inodes of the sockets of all ranks
        self.looked = 0.0
        self.owners = {}  # inode -> rank, None for a socket that is not a rank's, or NOT_YET
        self.links = {}  # key -> (rank, sent, received)
        self.closed = set()  # keys whose last numbers are known
        self.strays = {}  # key -> (sent, received): whose they were is not known
        self.strays_due = []  # those that are to be reported
        self.foreign = set()  # keys that other programs had at the last look
        self.ending = 0  # ranks whose last numbers are waited for
        self.met = 0.0  # when a rank last reached the rendezvous
        self.told = {}  # key -> (sent, received) that the controller knows
        self.sharing = []  # [[rank, ...]] that map the same memory
        self.rdma = False  # a rank maps such a device
        self.maps_due = 0.0
        self.sockets = None
        self.trouble = ""
        self.unanswered = tcp_retries.Unanswered()

    def add(self, rank, pid, wrapper):
        with self.lock:
            self.pids[rank], self.wrappers[rank] = pid, wrapper
            self.since[rank] = time.monotonic()
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
                    self.shortest = self.watched()
                    self.since.pop(rank, None)
                    return
            time.sleep(0.02)

    def exchanged(self):
        """rank -> bytes so far, without what the rendezvous took: waiting for it may poll."""
        found = {}  # type: dict[int, int]
        with self.lock:
            for key, (rank, sent, received) in self.links.items():
                if self.store not in (key[1], key[3]):
                    found[rank] = found.get(rank, 0) + sent + received
        return found

    def watched(self):
        """Seconds that each rank was watched, or more."""
        now = time.monotonic()
        lives = [now - began for began in self.since.values()]
        return min(lives + ([] if self.shortest is None else [self.shortest]), default=0.0)

    def loop(self, over):
        self.report()
        while not over():
            self.came.wait(self.pause())
            self.came.clear()
            if self.due():
                self.report()

    def due(self):
        """Whether a rank has a new socket, or the last look is old. Looking at all sockets takes
        ten times as long."""
        with self.lock:
            pids, wrappers = dict(self.pids), dict(self.wrappers)
        held = {n for rank, pid in pids.items() for n in own_sockets(pid, wrappers[rank])}
        before, self.held = self.held, held
        meets = time.monotonic() < self.met + MEETING
        return held != before or time.monotonic() - self.looked > (FIRST if meets else OFTEN)

    def pause(self):
        now = time.monotonic()
        if now < self.met + MEETING:
            return JUST
        group = any(self.store not in (key[1], key[3]) for key in self.links)
        if now >= self.young and (group or not self.links):
            return SELDOM
        return OFTEN if group else FIRST

    def report(self):
        with self.lock:
            if self.trouble:
                return
            before = (self.sharing, self.missed(), bool(self.sockets))
            try:
                moved = self.moved()
            except (OSError, struct.error) as e:
                self.trouble = "no TCP counters: %s" % (getattr(e, "strerror", "") or e)
                self.call.emit(self.event([], []))
                return
            self.look_at_memory()
            strays, self.strays_due = self.strays_due, []
            now = (self.sharing, self.missed(), bool(self.sockets))
            if moved or strays or before != now:
                self.call.emit(self.event(moved, strays))

    def event(self, links, strays):
        return {
            "event": "traffic",
            "links": links,
            "sharing": self.sharing,
            "strays": [list(k) + list(self.strays[k]) for k in strays if k in self.strays],
            "missed": self.missed(),
            "trouble": self.trouble,
        }

    def missed(self):
        """Why ranks may have exchanged more than was seen here."""
        if self.rdma:
            return "its ranks use RDMA, which is not counted"
        if self.sockets is not None and self.sockets.missed:
            return "more connections closed than its kernel reports"
        return ""

    def last_words(self):
        """All that counts, when no rank is left: what was reported may have been dropped."""
        self.report()
        with self.lock:
            self.told = {}
            return dict(self.event(self.news(), self.strays), watched=self.watched())

    def look_at_memory(self):
        now = time.monotonic()
        if now < self.maps_due:
            return
        self.maps_due = now + (MAPS_EVERY if now < self.young else MAPS_SELDOM)
        by_memory = {}  # type: dict[object, set[int]]
        for rank, pid in self.pids.items():
            maps = maps_of(pid)
            self.rdma = self.rdma or bool(RDMA.search(maps))
            for memory in SHARED.findall(maps):
                by_memory.setdefault(memory, set()).add(rank)
        groups = {tuple(sorted(ranks)) for ranks in by_memory.values() if len(ranks) > 1}
        known = {tuple(group) for group in self.sharing}
        if not groups <= known:
            self.sharing = [list(group) for group in sorted(groups | known)][:LARGEST]

    def moved(self):
        self.looked = time.monotonic()
        if self.sockets is None:
            self.sockets = Sockets()
        found = list(self.sockets.open())
        self.learn(found)
        self.look_for_answers(found)
        foreign = set()
        for key, uid, inode, sent, received, state, *_ in found:
            if state == SYN_SENT:
                continue
            rank = self.owners.get(inode) if inode else NOT_YET
            if not inode and key in self.links and sent is not None:
                rank = self.links[key][0]  # its process has closed it, and bytes are on their way
            if rank is None or (not inode and key in self.foreign):
                foreign.add(key)
            if rank is None or rank == NOT_YET:
                if not inode and not self.pids:  # its owner has ended
                    self.add_stray(key, uid, sent, received)
                continue
            if sent is None:
                raise OSError(0, "this kernel does not count bytes (older than 4.1)")
            meets = self.store in (key[1], key[3]) or not self.has_link(rank)
            if meets and key not in self.links:
                self.met = time.monotonic()
            self.links[key] = (rank, sent, received)
        strange = self.ending > 0 or time.monotonic() < self.young  # else they are other programs'
        for key, uid, _, sent, received, *_ in self.sockets.closed():
            if key not in self.links:
                if strange or key[0] != key[2]:
                    self.add_stray(key, uid, sent, received)
                continue
            rank, before, _ = self.links[key]
            if sent is not None and sent >= before:  # else the port is used again
                self.links[key] = (rank, sent, received)
            self.closed.add(key)
        self.foreign = foreign
        return self.news()

    def has_link(self, rank):
        return any(link[0] == rank for link in self.links.values())

    def add_stray(self, key, uid, sent, received):
        """It came and went between two looks: whose it was is not known."""
        ours = (
            uid in (0, os.getuid()) and key not in self.foreign
        )  # 0: older kernels have forgotten
        if not ours or self.store in (key[1], key[3]) or not (sent or received):
            return
        self.strays[key] = (sent, received)
        self.strays_due.append(key)
        while len(self.strays) > STRAYS:
            del self.strays[next(iter(self.strays))]

    def look_for_answers(self, found):
        own = [c for c in found if self.owners.get(c.inode) not in (None, NOT_YET)]
        rows = [(c.key, c.retries) for c in own]
        event = self.unanswered.report(rows, time.monotonic())
        if event is not None:
            self.call.report(event)

    def learn(self, found):
        """Finds the owners of sockets that are new."""
        own = os.getuid()
        here = {c.inode for c in found if c.inode and c.uid == own}
        self.owners = {inode: self.owners[inode] for inode in here if inode in self.owners}
        new = {inode for inode in here if self.owners.get(inode, NOT_YET) == NOT_YET}
        if new and self.pids:
            held = {
                inode: rank
                for rank, pid in self.pids.items()
                for inode in own_sockets(pid, self.wrappers[rank])
            }
            for inode in new:  # a socket may be open a moment before its process has it
                missing = None if inode in self.owners else NOT_YET
                self.owners[inode] = held.get(inode, missing)

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


def maps_of(pid):
    try:
        with open("/proc/%d/maps" % pid, "rb") as f:
            return f.read()
    except OSError:
        return b""


def own_sockets(pid, wrapper):
    """The sockets of a rank that it did not inherit from its wrapper."""
    return inodes_of(pid) - sockets_of(wrapper)


def inodes_of(pid):
    """The sockets of a process and of those that it started."""
    found, todo = set(), [pid]
    while todo:
        pid = todo.pop()
        found |= sockets_of(pid)
        try:
            for task in os.listdir("/proc/%d/task" % pid):
                with open("/proc/%d/task/%s/children" % (pid, task)) as f:
                    todo.extend(int(word) for word in f.read().split())
        except (OSError, ValueError):
            continue  # it has ended, or the kernel keeps no list of children
    return found


def sockets_of(pid):
    found = set()
    try:
        for name in os.listdir("/proc/%d/fd" % pid):
            try:
                target = os.readlink("/proc/%d/fd/%s" % (pid, name))
            except OSError:
                continue  # closed meanwhile
            if target.startswith("socket:["):
                found.add(int(target[8:-1]))
    except OSError:
        pass  # it has ended
    return found
