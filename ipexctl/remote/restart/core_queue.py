"""The queue for the CPUs of this host: who waits for them, who uses them, and who is next.

All of it is in names of abstract Unix sockets, which every user of the host sees and which vanish
with their process: a ticket has the place and the CPUs of a run, and only one process can have the
name that claims a CPU. Any user can take any of these names: that holds a run up, and is shown with
the user's name (name_owners.py).
"""

import os
import re
import socket
from contextlib import suppress

from ipexctl.common.attempt_record import QueuedRun
from ipexctl.common.keeper_messages import CLAIMS, LEFT, WAITS, QueuePlace
from ipexctl.common.processes import user_name
from ipexctl.common.root_paths import ATTEMPT
from ipexctl.remote.facts import read_other_runs
from ipexctl.remote.facts.probe_values import parse_number
from ipexctl.remote.restart import name_owners
from ipexctl.remote.run_files import run_about

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterable, Iterator

    Name = tuple[str, int | None]  # and the uid of its owner
    Ticket = tuple[int, str, int, int]  # uid, run, place, mask of CPUs

TICKET = re.compile(r"ipexctl-queue/(\d+)/([a-z0-9-]{4,64})/(\d+)/([0-9,-]+)\Z")
CPU = "ipexctl-cpu/%d"
CLAIM = re.compile(r"ipexctl-cpu/(\d{1,6})\Z")
LONGEST = 107  # bytes of a name
HIGHEST = 65535  # number of a CPU: bounds what the text of a ticket can cost
EVERY = 1.0  # seconds between two looks at the queue
# rows of one look: any account can make any number of tickets, and a message has a limit
MOST_BEFORE, MOST_USING = 1000, 20
STARTED = 0  # the place of a run that has its CPUs


class CoreQueue:
    """A run's place in the queue. The place of a run is the time at which it was queued."""

    def __init__(self, run_id: str, since: float, cpus: "set[int]", root: str = "") -> None:
        """`root`: the folder whose runs say who started them, where people share an account."""
        self.run_id, self.since = run_id, int(since * 1000)
        self.root, self.owners = root, {}  # type: str, dict[str, str]
        self.cpus = set(cpus) or os.sched_getaffinity(0)
        self.claims = []  # type: list[socket.socket]  # the names of all CPUs, and a ticket
        self.ticket = None  # type: socket.socket | None  # None while another process has its name
        self.state, self.order, self.next_look = LEFT, WAITS, 0.0
        self.go_to(WAITS)

    def name_at(self, since: int) -> str:
        head = "ipexctl-queue/%d/%s/%d/" % (os.getuid(), self.run_id, since)
        cpus = cpu_list(self.cpus)
        if len(head + cpus) >= LONGEST:
            cpus = "%d-%d" % (min(self.cpus), max(self.cpus))
        return head + cpus

    def follow(self, order: str, now: float) -> "QueuePlace | None":
        """Do what is ordered, and return the run's place; None until the next look is due."""
        if order == self.state and now < self.next_look:
            return None
        self.next_look = now + EVERY
        self.go_to(order)
        return self.look()

    def look(self) -> "QueuePlace":
        """Return this run's place: the runs before it, and those that use its CPUs now."""
        if self.claims:
            return QueuePlace([], [], True)
        own, names = (os.getuid(), self.run_id), list(name_owners.list_names())
        own_mask = cpu_mask(cpu_list(self.cpus))
        tickets = [ticket for ticket in read_tickets(names) if ticket[3] & own_mask]
        using = [ticket for ticket in tickets if ticket[2] == STARTED]
        before = [t for t in tickets if t[2] > STARTED and (t[2], t[1]) < (self.since, self.run_id)]
        before = [ticket for ticket in before if ticket[:2] != own]
        others = [(uid, run) for uid, run, _, _ in using if (uid, run) != own]
        rows = ["%s of %s" % (run, self.name_owner(uid, run)) for uid, run in others[:MOST_USING]]
        rows += describe_holders(names, self.cpus, using)
        if not before:  # looking at processes takes longer
            known = {run for _, run, _, _ in using} | {self.run_id}
            for other in read_other_runs.find_other_runs(self.root):
                cpus = other["cpus"]
                if ATTEMPT.sub("", other["run"]) not in known and (
                    cpus is None or self.cpus & set(cpus)
                ):
                    rows.append("%s of %s" % (other["run"], other["owner"]))
        queued = [
            QueuedRun(since, run, self.name_owner(uid, run))
            for uid, run, since, _ in before[:MOST_BEFORE]
        ]
        return QueuePlace(queued, rows[:MOST_USING], False)

    def name_owner(self, uid: int, run: str) -> str:
        """Return who started a run, as `ps` says it; the account, if that is not known here."""
        user = user_name(uid)
        if uid != os.getuid() or not self.root:
            return user
        if run not in self.owners:
            self.owners[run] = run_about.read_owner(os.path.join(self.root, "runs", run), user)
        return self.owners[run]

    def go_to(self, state: str) -> None:
        """Leave the queue, wait at the run's place, or claim all CPUs; wait if one has an owner.

        The ticket is given back last: while the run claims, others see it in its place. A name that
        another process has is tried again at the next look.
        """
        if state == CLAIMS and not self.claims and not self.claim():
            state = WAITS
        if state == WAITS and self.ticket is None:
            with suppress(OSError):
                self.ticket = bind_name(self.name_at(self.since))
        if state != CLAIMS:
            close_all(self.claims)
        if state != WAITS and self.ticket is not None:
            self.ticket.close()
            self.ticket = None
        self.state = state

    def claim(self) -> bool:
        claims = []  # type: list[socket.socket]
        try:
            for cpu in sorted(self.cpus):
                claims.append(bind_name(CPU % cpu))
            claims.append(bind_name(self.name_at(STARTED)))
        except OSError:
            close_all(claims)
        self.claims = claims
        return bool(claims)

    def close(self) -> None:
        self.go_to(LEFT)


def close_all(holders: "list[socket.socket]") -> None:
    for holder in holders:
        holder.close()
    del holders[:]


def bind_name(name: str) -> "socket.socket":
    """Return a socket with this name; raises OSError if there is one."""
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        holder.bind("\0" + name)
    except OSError:
        holder.close()
        raise
    return holder


def read_tickets(names: "list[Name] | None" = None) -> "list[Ticket]":
    """Return (uid, run, place, CPUs) of each ticket on this host, in the order of the queue. The
    user is the one who has the name, whatever the text says, where the kernel tells that. The CPUs
    are a cpu_mask: a set of those that thousands of tickets may name takes minutes to make."""
    tickets = []
    for name, owner in name_owners.list_names() if names is None else names:
        match = TICKET.match(name)
        if match:
            uid, run, since, cpus = match.groups()
            uid = int(uid) if owner is None else owner
            tickets.append((uid, run, int(since), cpu_mask(cpus)))
    return sorted(tickets, key=lambda ticket: (ticket[2], ticket[1]))


def describe_holders(
    names: "list[Name]", cpus: "set[int]", using: "list[Ticket]"
) -> "Iterator[str]":
    """Yield who has which of these CPUs without a ticket: no run of ipexctl holds them so for
    longer than it takes to begin."""
    by_owner = {}  # type: dict[int | None, set[int]]
    for name, owner in names:
        match = CLAIM.match(name)
        if match and int(match.group(1)) in cpus:
            by_owner.setdefault(owner, set()).add(int(match.group(1)))
    for owner, taken in by_owner.items():
        with_ticket = 0
        for uid, _, _, mask in using:
            with_ticket |= mask if owner in (None, uid) else 0
        held = {cpu for cpu in taken if not with_ticket >> cpu & 1}
        if held:
            user = "another user" if owner is None else user_name(owner)
            yield "CPU %s held by %s" % (cpu_list(held), user)


def cpu_mask(text: str) -> int:
    """Return 0b100001111 for 0-3,8; what cannot be read counts for no CPU."""
    mask = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        start, end = parse_number(first), parse_number(last or first)
        if start is not None and end is not None and start <= min(end, HIGHEST):
            mask |= (1 << min(end, HIGHEST) + 1) - (1 << start)
    return mask


def cpu_list(cpus: "Iterable[int]") -> str:
    """Return 0-3,8 for {0, 1, 2, 3, 8}."""
    rows = []  # type: list[list[int]]
    for cpu in sorted(cpus):
        if rows and rows[-1][1] == cpu - 1:
            rows[-1][1] = cpu
        else:
            rows.append([cpu, cpu])
    return ",".join("%d-%d" % (a, b) if a < b else str(a) for a, b in rows)
