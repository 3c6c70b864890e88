"""The roles of a run's supervisors: Hub on the first host decides, HubSpoke on others reports.

Nothing here waits for the commands that watch the run.
"""

import queue
import threading
import time

from ipexctl.common import hub_orders, run_events, watch_orders
from ipexctl.common.copy_messages import CopierEvent, CopierServes
from ipexctl.common.run_events import Event, Fact
from ipexctl.common.run_orders import HubOrder
from ipexctl.remote.checkpoints import publication
from ipexctl.remote.connection import hub_link
from ipexctl.remote.failure import Failure, bug_document
from ipexctl.remote.hub import host_paths, judge
from ipexctl.remote.own_process import start_thread

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.common.run_orders import StartOrder
    from ipexctl.remote.run.supervisor import Supervisor

    Request = watch_orders.WatchOrder | run_events.Abandoned
    Queued = tuple[str, "Event | InvalidMessage"] | Request  # the first: the report of a host

CUT = "the connection ended"
LOOK = 0.25  # seconds between looks at the clock
AT_ONCE = 256  # events processed before orders and facts are sent
STOP_WAIT = 8.0  # seconds for the last messages of the other hosts
LAST_WORD = 2.0  # seconds for the hub to receive the last message
LAST_COPY = 60.0  # seconds for the last checkpoint to be found and copied
UNCOPIED = "%s was lost after all ranks had ended with 0 (%s): the last checkpoint may have no copy"
FROZEN = "it was frozen for %.0f s"
GONE = 2.0  # seconds until a host counts as lost once another sign says so
COPIER = run_events.CopierReported.__name__
ENDED = "the supervisor of the run was killed there, or the host shut down"


def is_failure(event: Event) -> bool:
    if isinstance(event, run_events.Exited):
        return event.code != 0
    return isinstance(event, run_events.RankExited) and run_events.is_decisive(event)


class InvalidMessage:
    """A message of a host that cannot be read."""

    def __init__(self, why: str, of_copies: bool) -> None:
        self.why, self.of_copies = why, of_copies


class Hub:
    """Processes the reports of all hosts one at a time; sends the resulting orders and facts."""

    def __init__(self, supervisor: "Supervisor", run: HubOrder) -> None:
        self.supervisor = supervisor
        self.run = run
        self.name = run.hosts[0].host
        self.others = [row.host for row in run.hosts[1:]]
        self.judge = judge.Judge(run, time.monotonic())
        groups = {row.host: row.groups for row in run.hosts}
        self.checkpoints = publication.Publication([self.name] + self.others, groups)
        self.inbox = queue.Queue()  # type: queue.Queue[Queued]
        self.link = None  # type: hub_link.HubListener | None
        self.next_look = 0.0
        # host -> since when the watcher does not reach it, and why
        self.doubts = {}  # type: dict[str, tuple[float, str]]
        self.over_sent = False
        self.over_since = None  # type: float | None
        self.hurried = False  # a stop was requested: do not wait for the last copies
        self.swept = {}  # type: dict[str, int]  # host -> processes that could not be killed
        self.all_swept = threading.Event()

    def begin(self) -> int:
        """Start the hub. Return the port on which the other hosts connect, 0 if there are none."""
        port = 0
        if self.others:
            try:
                self.link = hub_link.HubListener(self.others, self.supervisor.plan.keys, self.take)
                port = self.link.listen(self.run.address, self.run.ports)
            except OSError as e:
                place = "%s: %s" % (self.run.address, e.strerror or e)
                raise Failure(
                    "cannot wait for the other hosts at %s" % place, slug="cannot-listen"
                ) from None
        start_thread(self.loop)
        return port

    def report(self, event: Event) -> None:
        self.inbox.put((self.name, event))

    def take(self, host: str, document: "Any") -> None:
        """Take an event of another host."""
        try:
            self.inbox.put((host, Event.read(document)))
        except Exception as e:  # the host has another version, or a bug
            of_copies = isinstance(document, dict) and document.get("kind") == COPIER
            self.inbox.put((host, InvalidMessage("%.200r" % e, of_copies)))

    def ask(self, order: "Request") -> None:
        """Queue a request of a command that watches the run, or the news that it has ended."""
        self.inbox.put(order)

    def loop(self) -> None:
        try:
            while True:
                self.turn()
        except Exception:
            bug = bug_document()["what"]
            self.publish([Fact(run_events.Broken(bug), self.name)])
            self.tell_all(hub_orders.Stop(bug))

    def turn(self) -> None:
        """Process the events that have arrived, then send the resulting orders and facts."""
        events = self.collect_events()
        now = time.monotonic()
        if self.link is not None and self.link.longest_freeze() > self.supervisor.lease:
            self.judge.record_lost_host(self.name, FROZEN % self.link.longest_freeze(), now)
        for event in events:
            if isinstance(event, tuple):
                self.take_report(*event, now)
            else:
                self.take_request(event, now)
        if now >= self.next_look:
            self.next_look = now + LOOK
            self.look_at_hosts(now)
        self.judge.tick(now)
        if not self.judge.has_failed():  # else what no longer changes may be half a file
            self.checkpoints.begin(now)
        self.send_results(self.has_ended(now))

    def has_ended(self, now: float) -> bool:
        """Decide whether the run is over; after success, its last checkpoint is copied first."""
        copies = self.judge.is_success() and self.supervisor.plan.checkpoints
        if not (self.judge.over and copies) or self.hurried:
            return bool(self.judge.over)
        self.over_since = self.over_since or now
        self.checkpoints.begin_end()
        is_over = self.checkpoints.is_done() or now - self.over_since > LAST_COPY
        if is_over:
            self.checkpoints.end(copies)
        return is_over

    def collect_events(self) -> "list[Queued]":
        events = []  # type: list[Queued]
        try:
            events.append(self.inbox.get(timeout=LOOK))
            while len(events) < AT_ONCE:
                events.append(self.inbox.get_nowait())
        except queue.Empty:
            pass
        return events

    def take_report(self, host: str, event: "Event | InvalidMessage", now: float) -> None:
        """Pass a host's event to the part that handles it: sweep, checkpoints or judge."""
        if isinstance(event, InvalidMessage):
            if event.of_copies:  # the run goes on without copies
                self.note_invalid_copier(host, event.why)
            else:
                self.judge.record_invalid_message(host, now)
        elif isinstance(event, run_events.Swept):
            self.swept[host] = event.survivors
            self.count_swept()
        elif isinstance(event, run_events.CopierReported):
            self.take_checkpoint(host, event.event, now)
        else:
            if is_failure(event):
                self.report_lost_peers(host, now)
            self.hurried = self.hurried or isinstance(event, run_events.StopAsked)
            self.judge.take(host, event, now)

    def take_checkpoint(self, host: str, event: CopierEvent, now: float) -> None:
        """Pass a message about checkpoints on; one that cannot be is noted, and the run goes on."""
        try:
            if isinstance(event, CopierServes):
                address = self.link.address(host) if self.link and host in self.others else ""
                event.address = address or self.run.address
            self.checkpoints.take(host, event, now)
        except Exception:
            self.note_invalid_copier(host, bug_document()["what"])

    def note_invalid_copier(self, host: str, why: str) -> None:
        text = "checkpoints: %s sent an invalid message (%s)" % (host, why)
        self.publish([Fact(run_events.Noted(text))])

    def count_swept(self) -> None:
        if set(self.swept) | self.judge.lost >= set(self.others):
            self.all_swept.set()

    def report_lost_peers(self, host: str, now: float) -> None:
        """Report hosts whose link is down as lost first: they may have caused this failure."""
        settled = self.judge.decided or self.judge.all_ended()
        if self.link is not None and not settled:
            connected = self.link.connected() | {host, self.name}
            for peer in self.others:
                if peer not in connected and peer in self.judge.ready:
                    why = ENDED if self.link.absent(peer) else CUT
                    self.judge.record_lost_host(peer, why, now)

    def take_request(self, order: "Request", now: float) -> None:
        """Handle a request of a watching command: to stop, to doubt a host, to give up."""
        if isinstance(order, watch_orders.Interrupt):
            self.hurried = True
            self.judge.ask_to_end(order.by, order.seconds, now)
        elif isinstance(order, watch_orders.Doubt):
            self.doubts.setdefault(order.host, (now, order.why))
        elif isinstance(order, watch_orders.CannotGoOn):
            self.judge.broken(order.host, order.why)
        elif isinstance(order, run_events.Abandoned):
            self.judge.abandoned(order.why)

    def look_at_hosts(self, now: float) -> None:
        """Report hosts as lost that are silent for the lease, gone, or doubted by the watcher."""
        if self.link is None or self.judge.over:
            return
        connected = self.link.connected()
        for host in self.others:
            silence = now - self.link.heard(host)
            since, why = self.doubts.get(host, (now, ""))
            if host not in self.judge.lost and host in self.judge.ready:
                self.judge.paths.listen(host, silence, now)
            if silence > self.supervisor.lease:
                self.judge.record_lost_host(host, "no message from it for %.0f s" % silence, now)
            elif self.link.absent(host) > GONE:
                self.judge.record_lost_host(host, why or ENDED, now)
            elif now - since > GONE:
                if host not in connected or silence > 2 * GONE:
                    self.judge.record_lost_host(host, why, now)
                else:
                    del self.doubts[host]  # only the watcher does not reach it

    def send_results(self, is_over: bool) -> None:
        """Send the collected orders and facts; once the run is over, tell all hosts to stop."""
        orders, self.judge.orders = self.judge.orders, []
        facts, self.judge.facts = self.judge.facts, []
        orders, self.checkpoints.orders = orders + self.checkpoints.orders, []
        facts, self.checkpoints.facts = facts + self.checkpoints.facts, []
        if is_over and not self.over_sent:
            facts.append(Fact(run_events.Over(self.judge.over, self.judge.is_success())))
        for host, order in orders:
            self.send(host, order)
        if facts:
            self.publish(facts)
        if is_over and not self.over_sent:
            self.over_sent = True
            self.supervisor.stopped = self.judge.over
            self.tell_all(hub_orders.Stop(self.judge.over))
            self.count_swept()  # lost hosts will not report

    def publish(self, facts: "list[Fact]") -> None:
        """Record facts in the journal of every host, so that any of them can report the run."""
        self.supervisor.note_facts(facts)
        for host in self.others:
            self.send(host, hub_orders.Note(facts))

    def send(self, host: str, order: hub_orders.HostOrder) -> None:
        if host == self.name:
            self.supervisor.inbox.put(order)
        elif self.link is not None:
            self.link.send(host, order.document())

    def tell_all(self, order: hub_orders.HostOrder) -> None:
        for host in [self.name] + self.others:
            self.send(host, order)

    def starter_gone(self, why: str) -> None:
        if not (self.run.lives_on and self.judge.begun):
            self.ask(run_events.Abandoned(why))

    def look_at_other_end(self, lease: float) -> None:
        """End the run if the command that it depends on is silent for too long."""
        silence = time.monotonic() - self.supervisor.last_heard
        if silence > lease and not self.run.lives_on:
            self.supervisor.stopped = "no message from ipexctl for %.0f s" % silence
            self.ask(run_events.Abandoned(self.supervisor.stopped))

    def finish(self, survivors: int) -> "dict[str, int]":
        """Return the surviving processes of each host. `survivors`: those of this host."""
        if self.link is not None:
            # a run that is stopped while it begins: no host may know yet where the hub is
            if self.judge.begun or self.link.connected():
                self.all_swept.wait(STOP_WAIT)
            self.link.close()
        survivors_of = dict(self.swept)
        survivors_of[self.name] = survivors
        return survivors_of


class HubSpoke:
    """The role of every other supervisor: it reports to the hub."""

    def __init__(self, supervisor: "Supervisor", order: "StartOrder") -> None:
        self.supervisor = supervisor
        self.hub = order.hub
        self.hub_is_known = False
        self.paths = host_paths.HostPaths([(supervisor.plan.host, ""), (self.hub, "")])
        self.link = hub_link.Spoke(supervisor.plan.host, self.hub, order.keys, self.take_order)

    def begin(self) -> int:
        return 0

    def take_order(self, document: "Any") -> None:
        try:
            order = hub_orders.HostOrder.read(document)
        except Exception:  # the hub has another version, or a bug
            self.supervisor.stop("%s sent an invalid order" % self.hub)
        else:
            self.supervisor.inbox.put(order)

    def ask(self, order: "Request") -> None:
        if isinstance(order, watch_orders.HubAt) and not self.hub_is_known:
            self.hub_is_known = True
            self.link.connect(order.address, order.port)

    def report(self, event: Event) -> None:
        self.link.send(event.document())

    def starter_gone(self, why: str) -> None:
        """Stop if the hub's address is still unknown: only the starting command can send it."""
        if not self.hub_is_known:
            self.supervisor.stop(why)

    def look_at_other_end(self, lease: float) -> None:
        """End this part of the run if its hub is lost; Supervisor.watch_lease calls it."""
        now = time.monotonic()
        silence = now - self.link.heard(self.hub)
        if self.link.was_connected():
            self.paths.listen(self.hub, silence, now)
        for text, cut in self.paths.news(now):
            self.supervisor.note_facts([Fact(run_events.Noted(text, cut))])
        host, why = self.hub, ""
        if self.link.longest_freeze() > lease:
            host, why = self.supervisor.plan.host, FROZEN % self.link.longest_freeze()
        elif silence > lease:
            why = "no message from it for %.0f s" % silence
        elif self.link.absent(self.hub) > GONE:
            why = ENDED
        if why and host == self.hub and self.supervisor.succeeded:
            text = UNCOPIED % (self.hub, why)
            self.supervisor.note_facts([Fact(run_events.Noted(text))])
            self.supervisor.stop(text)
        elif why:  # only this host can record it here
            self.supervisor.note_facts([Fact(run_events.HostLost(why), host)])
            self.supervisor.stop("%s was lost: %s" % (host, why))

    def finish(self, survivors: int) -> "dict[str, int]":
        self.link.send(run_events.Swept(survivors).document())
        start = time.monotonic()
        while not self.link.flush(0.05):  # the hub closes when it has heard all hosts
            if not self.link.connected() or time.monotonic() - start > LAST_WORD:
                break
        self.link.close()
        return {}
