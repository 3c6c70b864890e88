"""The part of a host in an attempt of a run with --restarts, as its journal shows it."""

import os
import time

from ipexctl.common import run_events
from ipexctl.common.journal_records import FactNoted, OwnRankEnded, PartEnded
from ipexctl.common.keeper_messages import PartFailed, PartOver, PartReady
from ipexctl.common.run_events import Fact
from ipexctl.common.run_orders import StartOrder
from ipexctl.common.supervisor_messages import EventSent, StartFailed, SupervisorMessage
from ipexctl.remote.checkpoints import checkpoint_rules
from ipexctl.remote.own_process import start_thread
from ipexctl.remote.rank import rank_wrapper
from ipexctl.remote.run import control
from ipexctl.remote.run_files import journal

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.common.frames import Frames
    from ipexctl.remote.restart.guardian_starter import Starter
    from ipexctl.remote.restart.host_part import HostPart

BEGINS = 60.0  # seconds for a supervisor to appear
FACTS, TAIL = 8, 2000  # that are reported, and characters of what a rank printed
NO_PROCESS = -1  # whose descendants are to be killed: those that carry the run's id are enough


class Part:
    def __init__(self, host: "HostPart", order: StartOrder, attempt: int) -> None:
        self.host, self.order, self.attempt = host, order, attempt
        self.run_id = self.order.run_id
        self.folder = os.path.join(host.runs, self.run_id)
        self.journal = journal.JournalReader(journal.path_of(self.folder, self.order.host))
        self.began = time.monotonic()
        self.facts: "list[Fact]" = []
        self.well = False
        self.unfinished = {rank.rank for rank in self.order.ranks}  # or failed
        self.seconds = 0.0
        self.complete, self.number = "", 0  # the last checkpoint that was complete
        self.checkpoints = 0  # how many were
        self.seen = False  # its supervisor was there
        self.ended = self.reported = False
        self.joined = False  # it knows its hub
        self.link = None  # type: Frames | None
        self.next_look = 0.0

    def begin(self, starter: "Starter") -> None:
        self.link = starter.begin()
        start_thread(self.listen, self.link)
        self.write(self.order.document())

    def write(self, header: "dict[str, Any]") -> None:
        try:
            if self.link is not None:
                self.link.write(header)
        except OSError:
            pass  # it has ended: `look` sees it

    def listen(self, link: "Frames") -> None:
        """Receive the messages of the guardian and the supervisor of this part."""
        host = self.host
        while True:
            frame = link.read()
            if frame is None:
                return
            message = SupervisorMessage.read(frame[0])
            if isinstance(message, EventSent) and isinstance(message.event, run_events.Ready):
                host.deliver(host.name, PartReady(self.attempt, message.event.port))
            elif isinstance(message, StartFailed):
                host.deliver(host.name, PartFailed(self.attempt, message.failure["what"]))

    def look(self, now: float) -> None:
        """Read the journal; check once per second whether supervisor or guardian is alive."""
        self.read()
        if now < self.next_look or self.ended:
            return
        self.next_look = now + 1.0
        host = self.order.host
        alive = control.is_alive(self.folder, host) or control.is_alive(
            self.folder, control.guardian_of(host)
        )
        self.seen = self.seen or alive
        if not alive and (self.seen or now - self.began > BEGINS):
            self.read()  # they may have ended normally since the last look
            if not self.ended:
                self.vanished()

    def read(self) -> None:
        """Update the state of this part from new records of its journal."""
        for written, _ in self.journal.new():
            self.seconds, record = written.at or self.seconds, written.record
            if isinstance(record, OwnRankEnded):
                if not self.facts and record.ended.code == 0:
                    self.unfinished.discard(record.rank)
            elif isinstance(record, FactNoted):
                self.take_fact(record.fact)
            elif isinstance(record, PartEnded):
                self.ended = True

    def take_fact(self, fact: Fact) -> None:
        event = fact.event
        if isinstance(event, run_events.Over):
            self.well = self.well or event.well
        elif isinstance(event, run_events.RanksSucceeded):
            self.well = self.well or not self.facts
        elif isinstance(event, run_events.Checkpoint):
            self.take_checkpoint(event)
        elif run_events.is_decisive(event) and len(self.facts) < FACTS:
            if isinstance(event, run_events.RankExited):
                fact = fact.replace(event=event.replace(tail=event.tail[-TAIL:]))
            self.facts.append(fact)

    def take_checkpoint(self, event: run_events.Checkpoint) -> None:
        """Note a complete checkpoint. The one from which the attempt began stays until there are
        two: a restart may have to skip the first."""
        self.checkpoints += -1 if event.withdrawn else 1
        self.complete = "" if event.withdrawn else event.name
        self.number = event.number
        if self.checkpoints >= checkpoint_rules.KEPT:
            self.host.copies.release(self.order)

    def vanished(self) -> None:
        """Kill the ranks and note the loss: supervisor and guardian have disappeared."""
        self.ended = True
        rank_wrapper.kill_all(self.run_id, NO_PROCESS)
        if not self.facts and self.seen:
            why = "its supervisor and its guardian have disappeared"
            self.facts.append(Fact(run_events.HostLost(why), self.order.host))

    def end(self) -> "PartOver":
        """Return how this part ended, as the leader has to know it."""
        return PartOver(
            attempt=self.attempt,
            well=self.well,
            finished=not self.unfinished,
            facts=self.facts,
            seconds=self.seconds,
            complete=self.complete,
            number=self.number,
        )
