"""The queue for the CPUs of this host: who waits for them, who uses them, and who is next.

All of it is in names of abstract Unix sockets, which every user of the host sees and which vanish
with their process: a ticket has the place and the CPUs of a run, and only one process can have the
name that claims a CPU.
"""

import os
import re
import socket

from ipexctl.common.keeper_messages import CLAIMS, LEFT, WAITS, QueuePlace
from ipexctl.common.root_paths import ATTEMPT
from ipexctl.common.tolerant_reads import read_text
from ipexctl.remote.facts import read_other_runs
from ipexctl.remote.facts.probe_values import expand_cpu_list

TICKET = re.compile(r"@ipexctl-queue/(\d+)/([a-z0-9-]{4,64})/(\d+)/([0-9,-]+)\Z")
LONGEST = 107  # bytes of a name
EVERY = 1.0  # seconds between two looks at the queue
STARTED = 0  # the place of a run that has its CPUs


class CoreQueue:
    """A run's place in the queue. The place of a run is the time at which it was queued."""

    def __init__(self, run_id, since, cpus):
        self.run_id, self.since = run_id, int(since * 1000)
        self.cpus = set(cpus) or os.sched_getaffinity(0)
        self.claims = []  # type: list[socket.socket]
        self.ticket = None  # type: socket.socket | None
        self.order, self.next_look = WAITS, 0.0
        self.go_to(WAITS)

    def name_at(self, since):
        head = "ipexctl-queue/%d/%s/%d/" % (os.getuid(), self.run_id, since)
        cpus = cpu_list(self.cpus)
        if len(head + cpus) >= LONGEST:
            cpus = "%d-%d" % (min(self.cpus), max(self.cpus))
        return head + cpus

    @property
    def state(self):
        return CLAIMS if self.claims else WAITS if self.ticket else LEFT

    def follow(self, order, now):
        """Do what is ordered, and return the run's place; None until the next look is due."""
        if order == self.state and now < self.next_look:
            return None
        self.next_look = now + EVERY
        self.go_to(order)
        return self.look()

    def look(self):
        """Return this run's place: the runs before it, and those that use its CPUs now."""
        if self.claims:
            return QueuePlace([], [], True)
        own = os.getuid(), self.run_id
        tickets = [ticket for ticket in read_tickets() if ticket[3] & self.cpus]
        using = [ticket for ticket in tickets if ticket[2] == STARTED]
        before = [t for t in tickets if t[2] > STARTED and (t[2], t[1]) < (self.since, self.run_id)]
        rows = [describe_run(uid, run) for uid, run, _, _ in using if (uid, run) != own]
        if not before:  # looking at processes takes longer
            known = {run for _, run, _, _ in using} | {self.run_id}
            for other in read_other_runs.find_other_runs():
                cpus = other["cpus"]
                if ATTEMPT.sub("", other["run"]) not in known and (
                    cpus is None or self.cpus & set(cpus)
                ):
                    rows.append("%s of %s" % (other["run"], other["owner"]))
        return QueuePlace([describe_run(uid, run) for uid, run, _, _ in before], rows, False)

    def go_to(self, state):
        """Leave the queue, wait at the run's place, or claim all CPUs; wait if one has an owner."""
        if state != self.state:
            self.close()
            if state == CLAIMS and not self.claim():
                state = WAITS
            if state == WAITS:
                self.ticket = bind_name(self.name_at(self.since))

    def claim(self):
        try:
            for cpu in sorted(self.cpus):
                self.claims.append(bind_name("ipexctl-cpu/%d" % cpu))
            self.ticket = bind_name(self.name_at(STARTED))
        except OSError:
            self.close()
        return self.ticket is not None

    def close(self):
        for holder in [*self.claims, *filter(None, [self.ticket])]:
            holder.close()
        self.claims, self.ticket = [], None


def bind_name(name):
    """Return a socket with this name; raises OSError if there is one."""
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        holder.bind("\0" + name)
    except OSError:
        holder.close()
        raise
    return holder


def read_tickets():
    """Return (uid, run, place, CPUs) of each ticket on this host, in the order of the queue."""
    tickets = []
    for line in read_text("/proc/net/unix").splitlines()[1:]:
        match = TICKET.match(line.split()[-1])
        if match:
            uid, run, since, cpus = match.groups()
            tickets.append((int(uid), run, int(since), set(expand_cpu_list(cpus))))
    return sorted(tickets, key=lambda ticket: (ticket[2], ticket[1]))


def describe_run(uid, run):
    return "%s of %s" % (run, read_other_runs.user_name(uid))


def cpu_list(cpus):
    """Return 0-3,8 for {0, 1, 2, 3, 8}."""
    rows = []  # type: list[list[int]]
    for cpu in sorted(cpus):
        if rows and rows[-1][1] == cpu - 1:
            rows[-1][1] = cpu
        else:
            rows.append([cpu, cpu])
    return ",".join("%d-%d" % (a, b) if a < b else str(a) for a, b in rows)
