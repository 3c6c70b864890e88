"""Measure what the ranks of this host exchange: bytes, by the kernel's counters of their TCP
sockets, and what each reports about its groups of torch.distributed (rank_records.py)."""

import os
import struct
import threading
import time

from ipexctl.common.exchange_report import ExchangeReport
from ipexctl.common.run_events import Exchanged
from ipexctl.remote.hub import host_paths
from ipexctl.remote.rank import socket_table
from ipexctl.remote.run import rank_records

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ipexctl.remote.run.supervisor import Supervisor

    Connection = socket_table.Connection
    Ends = tuple[str, int, str, int]  # own address and port, the other's
    Pair = tuple[int, str, str]  # rank, own address, the other's

EVERY = 1.0  # seconds between looks
TOLD_EVERY = 2.5  # seconds between events, if there is something new
NOT_YET = -1  # owner of a socket that belonged to no rank at one look
MOST_CONNECTIONS = 4096  # counted separately; as many pairs of a rank and an address


class TrafficReader:
    """Emit Exchanged events. Bytes sent between the last look and the end of a connection do not
    count: the sums are at least what was exchanged."""

    def __init__(self, call: "Supervisor", store: int) -> None:
        """Ignore bytes of `store`, the port of the rendezvous: a rank that waits may poll it."""
        self.call, self.store = call, store
        self.lock = threading.Lock()
        # by rank; what a wrapper has from MPI, its rank has too
        self.pids, self.wrappers = {}, {}  # type: dict[int, int], dict[int, int]
        self.records = rank_records.Records(call.programs.site(), call.plan.modules)
        # inode -> rank, None for a socket that is not a rank's, or NOT_YET
        self.owners = {}  # type: dict[int, int | None]
        # (rank, sent, received), also when it has closed
        self.links = {}  # type: dict[Ends, tuple[int, int, int]]
        self.closed = {}  # type: dict[Pair, list[int]]  # [sent, received] of closed ones
        # rank -> seconds of sending, None where the kernel does not count them
        self.busy = {}  # type: dict[int, float | None]
        self.told = 0.0
        self.unanswered = host_paths.UnansweredAddresses()

    def add(self, rank: int, pid: int, wrapper: int) -> None:
        with self.lock:
            self.pids[rank], self.wrappers[rank] = pid, wrapper
            self.records.add(rank, pid)
            self.owners = {inode: who for inode, who in self.owners.items() if who is not None}

    def remove(self, rank: int) -> None:
        with self.lock:
            self.pids.pop(rank, None)

    def loop(self, is_over: "Callable[[], bool]") -> None:
        """Read the counters every EVERY seconds, and emit an event when a rank's records change."""
        while not is_over():
            time.sleep(EVERY)
            try:
                self.look()
            except (OSError, struct.error):
                pass  # no counters: a kernel before 4.1
            now = time.monotonic()
            if now - self.told >= TOLD_EVERY and self.records.read():
                self.told = now
                self.call.emit(Exchanged(self.report()))

    def look(self) -> None:
        """Read the kernel's table of sockets: count bytes, and report peers that do not answer."""
        table = list(socket_table.list_connections())
        with self.lock:
            self.learn(table)
            ours = [link for link in table if self.owners.get(link.inode) not in (None, NOT_YET)]
            self.count(link for link in ours if self.store not in (link.key[1], link.key[3]))
            rows = [(link.key, link.retries) for link in ours]
            event = self.unanswered.report(rows, time.monotonic())
        if event is not None:
            self.call.report(event)

    def learn(self, connections: "list[Connection]") -> None:
        """Find the rank that owns each new socket."""
        inodes = {link.inode for link in connections if link.inode and link.uid == os.getuid()}
        self.owners = {inode: owner for inode, owner in self.owners.items() if inode in inodes}
        new_inodes = {inode for inode in inodes if self.owners.get(inode, NOT_YET) == NOT_YET}
        rank_of_inode = {
            inode: rank
            for rank, pid in (self.pids.items() if new_inodes else ())
            for inode in socket_table.own_sockets(pid, self.wrappers[rank])
        }
        for inode in new_inodes:  # a socket may exist a moment before its process has it
            self.owners[inode] = rank_of_inode.get(inode, None if inode in self.owners else NOT_YET)

    def count(self, connections: "Iterable[Connection]") -> None:
        """Store the counters of open connections; bytes of closed ones are added to their pair."""
        open_keys = set()
        for link in connections:
            if link.state == socket_table.SYN_SENT or link.sent is None:
                continue
            rank = self.owners[link.inode]
            assert rank is not None  # as `look` has chosen
            if self.links.get(link.key, (rank, 0))[1] > link.sent:  # its ends are used again
                self.forget(link.key)
            self.links[link.key] = rank, link.sent, link.received
            open_keys.add(link.key)
            if link.key[0] != link.key[2]:  # connections are busy together
                longest = self.busy.get(rank, 0.0)
                is_counted = link.busy is not None and longest is not None
                self.busy[rank] = max(link.busy, longest or 0.0) if is_counted else None
        for key in set(self.links) - open_keys if len(self.links) > MOST_CONNECTIONS else ():
            self.forget(key)

    def forget(self, key: "Ends") -> None:
        rank, sent, received = self.links.pop(key)
        pair = (rank, key[0], key[2])
        if pair not in self.closed and len(self.closed) >= MOST_CONNECTIONS:
            pair = (rank, "", "")
        add_traffic(self.closed, pair, sent, received)

    def sums(self) -> "dict[Pair, list[int]]":
        """Return {(rank, own address, the other's): [bytes sent, bytes received]}."""
        with self.lock:
            totals = {pair: list(counts) for pair, counts in self.closed.items()}
            for key, (rank, sent, received) in self.links.items():
                add_traffic(totals, (rank, key[0], key[2]), sent, received)
        return totals

    def exchanged(self) -> "dict[int, list[int]]":
        """Return {rank: [bytes with hosts of its own networks, bytes with other hosts]}."""
        totals = {}  # type: dict[int, list[int]]
        near_networks = socket_table.near_networks()
        for (rank, local, peer), counts in self.sums().items():
            is_far = not peer or (local != peer and not socket_table.is_in(peer, near_networks))
            totals.setdefault(rank, [0, 0])[is_far] += sum(counts)
        return totals

    def sent(self) -> "dict[int, list[Any]]":
        """Return {rank: [bytes to other hosts so far, seconds that took]}."""
        totals = {}  # type: dict[int, list[Any]]
        for (rank, local, peer), counts in self.sums().items():
            if local != peer:
                totals.setdefault(rank, [0, self.busy.get(rank, 0.0)])[0] += counts[0]
        return totals

    def report(self, last: bool = False) -> ExchangeReport:
        busiest = sorted(self.sums().items(), key=lambda row: -sum(row[1]))[:MOST_CONNECTIONS]
        moved = tuple(pair + (sent, came) for pair, (sent, came) in busiest if pair[1])
        return ExchangeReport(self.records.processes(), moved, self.records.silent, last)

    def last_report(self) -> ExchangeReport:
        """Return the last report, with the ranks' records read before their folder is removed."""
        self.records.read()
        return self.report(last=True)


def add_traffic(sums: "dict[Pair, list[int]]", pair: "Pair", sent: int, received: int) -> None:
    total = sums.setdefault(pair, [0, 0])
    total[0] += sent
    total[1] += received
