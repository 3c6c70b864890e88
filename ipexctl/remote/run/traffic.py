"""Bytes that ranks exchange with each other, from the kernel's counters of their TCP sockets."""

import os
import re
import struct
import threading
import time

from ipexctl.remote.hub import host_paths
from ipexctl.remote.rank import socket_table

YOUNG = 20.0  # a rank opens its connections within this many seconds of its start, mostly
# seconds between two looks: a rank has just reached the rendezvous, is young, is old
JUST, FIRST, OFTEN, SELDOM = 0.02, 0.1, 0.3, 1.0
MEETING = 2.0  # seconds after the rendezvous in which a group forms
CLOSING = 0.5  # seconds in which the kernel tells of the sockets of a rank that has ended
STRAYS = 1024  # connections that opened and closed between two looks: the latest are kept
NOT_YET = -1  # the owner of a socket that no rank had at one look
LARGEST, KEPT = 32, 256  # links of a rank that are reported and known: those with the most bytes
MAPS_EVERY = 2.0  # seconds, of young ranks; later
MAPS_SELDOM = 10.0
# memory that processes of one host share: dev:inode of what MPI, oneCCL and DeepSpeed map
SHARED = re.compile(rb"^\S+ rw-s \S+ (\S+) (\d+) +(?:/dev/shm/|/memfd:|/SYSV)", re.MULTILINE)
RDMA = re.compile(rb" (?:/dev/infiniband/uverbs|/dev/hfi1_|/dev/cxi)\d", re.MULTILINE)


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
        self.busy = {}  # key -> seconds of sending, None where the kernel does not count them
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
        self.unanswered = host_paths.Unanswered()

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
        """rank -> bytes so far with hosts of its own networks, and with others; without what the
        rendezvous took: waiting for it may poll."""
        found = {}  # type: dict[int, list[int]]
        near = socket_table.near_networks()
        for (here, _, there, _), (rank, sent, received) in self.links_of_groups():
            far = here != there and not socket_table.is_in(there, near)
            found.setdefault(rank, [0, 0])[far] += sent + received
        return found

    def links_of_groups(self):
        """All links but those to the rendezvous."""
        with self.lock:
            return [one for one in self.links.items() if self.store not in (one[0][1], one[0][3])]

    def sent(self):
        """rank -> [bytes to other hosts so far, seconds that took], without the rendezvous."""
        found = {}  # type: dict[int, list]
        for key, (rank, sent, _) in self.links_of_groups():
            if key[0] != key[2]:
                before, longest = found.get(rank, (0, 0.0))
                busy = self.busy.get(key)
                if busy is not None and longest is not None:  # connections are busy together
                    busy = max(busy, longest)
                found[rank] = [before + sent, None if longest is None else busy]
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
        held = {
            n for rank, pid in pids.items() for n in socket_table.own_sockets(pid, wrappers[rank])
        }
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
            self.sockets = socket_table.Sockets()
        found = list(self.sockets.open())
        self.learn(found)
        self.look_for_answers(found)
        foreign = set()
        for key, uid, inode, sent, received, state, *_, busy in found:
            if state == socket_table.SYN_SENT:
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
            self.links[key], self.busy[key] = (rank, sent, received), busy
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
                for inode in socket_table.own_sockets(pid, self.wrappers[rank])
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
                self.busy.pop(key, None)
                self.told.pop(key, None)
                self.closed.discard(key)
            for _, key in links[:LARGEST]:
                numbers = self.links[key][1:]
                if self.told.get(key) != numbers:
                    self.told[key] = numbers
                    out.append([rank] + list(key) + list(numbers))
        return out


def maps_of(pid):
    try:
        with open("/proc/%d/maps" % pid, "rb") as f:
            return f.read()
    except OSError:
        return b""
