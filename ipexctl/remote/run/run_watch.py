"""The agent's part in a run: it relays between the controller and the supervisor.

What the run decides and what its ranks print is read from files, by offset: a controller that
reconnects says what it has. Only the current state comes from the supervisor. A slow or lost
connection to the controller has no effect beyond the agent.
"""

import os
import threading
import time

from ipexctl.common import frames, run_events, watch_orders
from ipexctl.common.exchange_report import ExchangeReport
from ipexctl.common.journal_records import (
    FactNoted,
    JournalRecord,
    LogBegan,
    LogEnded,
    LookNoted,
    PartEnded,
    ResultNoted,
)
from ipexctl.common.run_events import Event, Fact
from ipexctl.common.run_orders import StartOrder
from ipexctl.common.supervisor_messages import (
    EventSent,
    JournalGrew,
    PartReport,
    StartFailed,
    SupervisorDone,
    SupervisorKilled,
    SupervisorMessage,
)
from ipexctl.common.waiting import wait_until
from ipexctl.common.watch_orders import WatchOrder, WatchStart
from ipexctl.remote.failure import Failure
from ipexctl.remote.own_process import no_core_dump, start_thread
from ipexctl.remote.run_files import journal, log_follower, run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    import socket
    from typing import Any

    from ipexctl.common.frames import Frames
    from ipexctl.remote.main import Call


PATIENCE = 10.0  # seconds for the supervisor to end on its own, when the controller is gone
LOOK = 0.5  # seconds between looks into the journal, if no change is reported
SWEPT = 10.0  # seconds for the guardian to record what it found after the supervisor was killed


def op_start(call: "Call", **order: "Any") -> PartReport:
    """Start a run on this host, by a StartOrder and a WatchStart, and watch it to its end."""
    if StartOrder.read(order).secret:
        no_core_dump()
    sock = call.agent.guardian
    assert sock is not None  # stand_by.op_begin came first
    link = frames.of_socket(sock)
    link.write(order)
    return RunWatch(call, WatchStart.read(order), sock, link).serve()


def op_attach(call: "Call", **order: "Any") -> PartReport:
    """Watch a run that has begun, by a WatchStart."""
    from ipexctl.remote.run import control  # imported late: a run that starts does not need it here

    watch = WatchStart.read(order)
    sock = control.open_watch_socket(run_folders.folder_of(watch.root, watch.run_id), watch.host)
    link = frames.of_socket(sock) if sock is not None else None
    return RunWatch(call, watch, sock, link).serve()


def op_conclude(
    call: "Call", root: str, known_as: str, run_id: str, result: "dict[str, Any]"
) -> None:
    """Record the result: {exit_code, ended_by, cause}."""
    folder = run_folders.folder_of(root, run_id)
    journal.append_record(journal.path_of(folder, known_as), ResultNoted(result))


class RunWatch:
    def __init__(
        self, call: "Call", order: WatchStart, sock: "socket.socket | None", link: "Frames | None"
    ) -> None:
        """Take the socket to the supervisor, None if it has ended, and `link`, its frames."""
        self.call = call
        self.asked = order
        self.socket = sock
        self.link = link
        folder = run_folders.folder_of(order.root, order.run_id)
        self.logs = os.path.join(folder, "logs")
        self.journal = journal.JournalReader(journal.path_of(folder, order.host))
        self.follower = log_follower.Follower(call, order.window)
        self.offsets = dict(order.logs)
        self.ended_part: "PartEnded | None" = None  # as read from the journal
        self.lock = threading.Lock()
        self.last_heard = time.monotonic()
        self.over = threading.Event()

    def serve(self) -> PartReport:
        """Relay between controller and supervisor until the run is over; return its report."""
        self.call.agent.at_end.append(self.close_sending_end)
        self.call.agent.heard = self.hear
        start_thread(self.orders)
        start_thread(self.watch_lease)
        start_thread(self.follower.loop)
        start_thread(self.look_often)
        try:
            return self.reports(self.link) if self.link else self.wait_for_guardian(0)
        finally:
            self.over.set()
            self.call.agent.heard = None

    # -- from the journal --

    def look(self) -> None:
        with self.lock:
            for written, position in self.journal.new():
                self.take(written.record, position)

    def look_often(self) -> None:
        while not self.over.wait(LOOK):
            self.look()

    def take(self, record: JournalRecord, position: int) -> None:
        """Forward a record of the journal to the controller if it does not have it yet."""
        if isinstance(record, LogBegan):
            path = os.path.join(self.logs, os.path.basename(record.file))
            self.follower.add(record.key, path, self.offsets.get(record.key, 0))
        elif isinstance(record, LogEnded):
            self.follower.finish(record.key)
        elif isinstance(record, PartEnded):
            self.ended_part = record
        elif position <= self.asked.at:
            return
        elif isinstance(record, FactNoted) and self.asked.facts:
            self.call.emit(record.fact.replace(at=position).document())
        elif isinstance(record, LookNoted):
            self.emit(run_events.RanksLooked(record.number, record.ranks))

    def emit(self, event: Event) -> None:
        self.call.emit(Fact(event).document())

    # -- from the supervisor --

    def reports(self, link: "Frames") -> PartReport:
        """Forward the supervisor's messages until it reports the end; return the final report."""
        while True:
            frame = link.read()
            if frame is None:
                return self.wait_for_guardian(SWEPT)
            message = SupervisorMessage.read(frame[0])
            if isinstance(message, EventSent):
                self.emit(message.event)
            elif isinstance(message, JournalGrew):
                self.take_new_records(message)
            elif isinstance(message, SupervisorDone):
                return self.ended(message.report)
            elif isinstance(message, StartFailed):
                raise Failure(**message.failure)
            elif isinstance(message, SupervisorKilled):
                return self.ended(self.make_last_report(message.survivors, message.killed))

    def take_new_records(self, message: JournalGrew) -> None:
        if message.unwritten is None:
            self.look()
        else:  # the journal could not be written
            with self.lock:
                self.take(message.unwritten, self.asked.at + 1)

    def wait_for_guardian(self, seconds: float) -> PartReport:
        """Wait up to `seconds` for the guardian to record the end."""

        def is_swept() -> bool:
            self.look()
            return self.ended_part is not None

        swept = wait_until(is_swept, seconds, 0.1)
        killed = "" if swept else "the supervisor of the run and its guardian have disappeared"
        survivors = self.ended_part.survivors if self.ended_part else None
        return self.ended(self.make_last_report(survivors, killed))

    def make_last_report(self, survivors: "int | None", killed: str = "") -> PartReport:
        exchanged = (self.ended_part and self.ended_part.exchanged) or ExchangeReport()
        return PartReport(survivors, self.logs, traffic=exchanged, killed=killed)

    def ended(self, report: PartReport) -> PartReport:
        """Report the surviving processes, then send the rest of the output, and return `report`."""
        self.over.set()
        self.look()
        if report.survivors is not None:
            self.emit(run_events.Swept(report.survivors, self.follower.left()))
        self.follower.close()
        return report

    # -- from the controller --

    def orders(self) -> None:
        """Forward the controller's orders to the supervisor; `shown` is for the log follower."""
        while True:
            frame = self.call.recv()
            if frame is None:
                return
            header = frame[0]
            order = WatchOrder.read(header)
            if isinstance(order, watch_orders.Shown):
                self.follower.give(order.bytes)
            elif self.link is not None:
                try:
                    self.link.write(header)
                except OSError:
                    pass  # the supervisor has ended: `reports` notices

    def hear(self) -> None:
        self.last_heard = time.monotonic()

    def watch_lease(self) -> None:
        """End the agent if the controller is silent; by then the supervisor has ended itself."""
        while not self.over.wait(0.5):
            if time.monotonic() - self.last_heard > self.asked.lease + PATIENCE:
                os._exit(0)

    def close_sending_end(self) -> None:
        if self.socket is not None:
            try:
                self.socket.shutdown(1)
            except OSError:
                pass
