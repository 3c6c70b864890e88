"""The keeper of a run with --restarts on one host: it lives from the first attempt to the last.

It watches this host's part of each attempt by its journal, tells the voters how it is
(HostReported), and obeys the orders of the one that leads. The first hosts are voters: they keep
the record of the run (record.py, voters.py), and one of them leads (leader.py). The lines of the
record are in `RUN/attempts.HOST`. A host that no leader reaches ends its ranks, and looks for one.
"""

import os
import queue
import time
from contextlib import suppress

from ipexctl.common.attempt_record import (
    AttemptBegins,
    KeeperAnswer,
    KeeperNote,
    KeeperQuestion,
    RecordLine,
    RunEnded,
    RunQueued,
)
from ipexctl.common.keeper_messages import (
    HostReported,
    KeeperMessage,
    KeeperOrder,
    LeaderOrdered,
    PartFailed,
    PartReady,
    Vote,
)
from ipexctl.common.restart_plan import RestartPlan
from ipexctl.common.root_paths import run_id_of
from ipexctl.common.run_orders import StartOrder
from ipexctl.remote import root_folder
from ipexctl.remote.failure import bug_document
from ipexctl.remote.own_process import close_files, no_core_dump
from ipexctl.remote.rank import rank_wrapper
from ipexctl.remote.restart import guardian_starter, keeper_notices, restart_policy, voters
from ipexctl.remote.restart.host_part import HostPart
from ipexctl.remote.restart.keeper_links import KeeperLinks
from ipexctl.remote.restart.leading import REPEATS, Leading
from ipexctl.remote.restart.queued_place import QueuedPlace
from ipexctl.remote.restart.record import RestartRecord
from ipexctl.remote.run import control
from ipexctl.remote.run_files import attempt_lines, needed_envs, queued_runs, run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Sequence
    from typing import Any

    from ipexctl.common.keeper_messages import HostReport


NAME = "ipexctl-keeper"
LOOK = 0.25
LAST_WORDS = 2.0
LINGERS = 8.0  # seconds for which the leader stays, until the others know of the end
ALONE = 5.0  # seconds beyond the lease without a leader: less than FENCE in leader.py
LOST = 600.0  # seconds without a leader, until this keeper ends
FOREVER = float("inf")  # a queued run waits until its hosts are back
SMALLER = "not more than half of the voters are reached from %s"
RETURNED = "; a host that is back votes again while `ipexctl attach` shows the run"


def fork_keeper(order: StartOrder) -> None:
    """Fork the keeper; called where there are no threads yet. Its parent is init."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        run_keeper(order)
    finally:
        os._exit(0)


def run_keeper(order: StartOrder) -> None:
    """Run as keeper until the run ends; end this host's part after an internal error."""
    if order.secret:
        no_core_dump()
    rank_wrapper.set_name(NAME)
    close_files()
    run_folders.held.clear()
    keeper = Keeper(order, guardian_starter.Starter())  # it forks before there are threads
    try:
        keeper.keep()
    except Exception:
        problem = bug_document()["what"]
        keeper.note(KeeperNote(problem))  # another one leads then
        keeper.host.end(problem)


class Asked:
    """A question of a process of this host, and where the thread that asks waits for its answer."""

    def __init__(self, question: KeeperQuestion) -> None:
        self.question = question
        self.answers = queue.Queue()  # type: queue.Queue[KeeperAnswer]


class Keeper:
    """One thread has all that is here; others only put messages into its inbox. `host` is what this
    host does in attempts; where it votes, `member` is its vote and `leading` what follows if it
    leads; `queue` is its place, if the run waited for CPUs."""

    def __init__(self, order: StartOrder, starter: "guardian_starter.Starter") -> None:
        self.order, self.name, self.starter = order, order.host, starter
        self.plan = RestartPlan.read(order.restart_plan or {})
        root = root_folder.prepare_root(order.root)
        runs = os.path.join(root, "runs")
        self.base = run_folders.checked_id(self.plan.run_id)  # of the first attempt
        self.folder = root_folder.make_subfolder(root, "runs", self.base)
        run_folders.hold_folder(self.folder)
        with suppress(OSError):  # a full disk
            needed_envs.note_needed_env(self.folder, order)
        self.inbox = queue.Queue()  # type: queue.Queue[tuple[str, object]]
        queued = self.plan.queued
        self.record, self.noted = RestartRecord([] if queued else self.plan.first), 0
        self.host = HostPart(order, self.base, runs, self.record, starter, self.take, self.note)
        self.queue = QueuedPlace(order, queued, self.base, runs, self.record) if queued else None
        if queued:
            self.note_queued()
        self.said: "dict[str, HostReport]" = {}  # the last report of each host
        self.next_word = 0.0
        self.term, self.alone = 0, False
        self.led = self.turned = time.monotonic()  # when a leader was heard, and the last turn
        self.over = False
        self.ending = 0.0  # since when it is known that the run is over
        self.awaited = set()  # type: set[str]  # hosts that were away then, and have not come since
        self.notices = keeper_notices.KeeperNotices(order, self.folder)  # this forks
        self.member = self.make_member()
        self.leading = Leading(order, self.member, self.record) if self.member else None
        self.links = KeeperLinks(self.name, self.plan, order.keys, self.take)

    def note_queued(self) -> None:
        """Record that the run waits, and what a reboot must not end."""
        self.note(RunQueued(self.plan.queued, self.order.about))
        if not self.order.secret:  # then nothing of it may be on a disk
            queued_runs.keep_order(self.folder, self.order)

    def make_member(self) -> "voters.Member | None":
        """Return the vote of this host, None if it has none."""
        names = [place[0] for place in self.plan.places]
        if self.name not in names:
            return None
        returned = self.order.returned
        return voters.Member(self.name, names, self.send, self.record.add, returned)

    def keep(self) -> None:
        """Answer this host's processes, and process messages until the run is over."""
        control.serve_control_socket(
            self.folder, control.keeper_of(self.name), self.answer, lambda link: None
        )
        while not self.over:
            self.turn()
        self.links.close(LAST_WORDS)

    def take(self, name: str, message: object) -> None:
        """Queue a message of another keeper, or an event of this host."""
        self.inbox.put((name, message))

    def send(self, name: str, message: KeeperMessage) -> None:
        self.links.send(name, message)

    def is_leader(self) -> bool:
        return self.leading is not None and self.leading.leader is not None

    def answer(self, message: "dict[str, Any]") -> "dict[str, Any]":
        """Answer a process of this host (control.py), which sends a KeeperQuestion: whether this
        keeper leads, what it waits for, and orders for a returned host. Called in other threads."""
        asked = Asked(KeeperQuestion.read(message))
        self.take(self.name, asked)
        try:
            return asked.answers.get(timeout=control.PATIENCE).document()
        except queue.Empty:
            raise OSError("the keeper does not answer") from None

    def make_answer(self, question: KeeperQuestion) -> KeeperAnswer:
        leader = self.leading.leader if self.leading is not None else None
        if leader is None:
            return KeeperAnswer(waits=SMALLER % self.name + RETURNED if self.alone else "")
        reached, returned = self.links.connected() | {self.name}, question.returned
        away = [name for name in self.plan.hosts if name not in reached]
        order = leader.make_returned_order(returned) if returned in away else None
        orders = order.replace(keys=self.order.keys).document() if order else {}
        count = len(self.plan.hosts)
        return KeeperAnswer(True, leader.waits, leader.before, away, orders, count)

    def turn(self) -> None:
        """Process waiting messages, then do what is due: vote, lead, look at the part, report."""
        wait = LOOK
        try:
            while True:
                name, message = self.inbox.get(timeout=wait)
                wait = 0.0
                try:
                    self.hear(name, message)
                except Exception as e:  # an invalid message
                    self.note(KeeperNote("%s sent %.200r (%r)" % (name, message, e)))
        except queue.Empty:
            pass
        now, reached = time.monotonic(), self.links.connected()
        if now - self.turned > ALONE:  # it was frozen: first wait for a message of the leader
            self.led = max(self.led, now - self.plan.lease)
        self.turned = now
        if self.leading is not None:
            self.give_orders(self.leading, self.leading.turn(now, reached, self.said), reached)
        self.note_record()
        self.host.look(now)
        if self.queue is not None:
            self.look_at_queue(self.queue, now)
        self.speak(now, reached)
        self.look_for_leader(now)
        if self.starter.has_ended():  # the ranks go on; without this keeper the host is lost
            self.note(KeeperNote("the process that starts guardians has ended"))
            self.over = True

    def hear(self, name: str, message: object) -> None:
        """Handle a message of another keeper, of this host's part, or of a process of this host."""
        if isinstance(message, dict):
            message = KeeperMessage.read(message)
        if isinstance(message, Vote):
            if self.member is not None:
                self.member.take(name, message)
        elif isinstance(message, HostReported):
            self.said[name] = message.report
        elif isinstance(message, LeaderOrdered):
            own = self.member.term() if self.member is not None else 0
            voters.check_term(message.term, max(self.term, own))
            self.obey(message.order, message.term, message.lines)
        elif isinstance(message, PartReady):
            self.host.set("ready", message)
            if self.host.is_unwanted(message.attempt):  # there was no supervisor to ask before
                self.host.end("its attempt has ended")
        elif isinstance(message, PartFailed):
            self.host.set("failed", message)
        elif isinstance(message, Asked):
            message.answers.put(self.make_answer(message.question))
            if message.question.stop:
                self.host.set("stop", message.question.stop)
                self.look_for_leader(time.monotonic())

    def speak(self, now: float, reached: "set[str]") -> None:
        """Report this host's state to the voters every REPEATS seconds, and after a change."""
        if now < self.next_word and not self.host.changed:
            return
        self.next_word, self.host.changed = now + REPEATS, False
        self.said[self.name] = report = self.host.report_at(now)
        for name in reached & {place[0] for place in self.plan.places}:
            self.send(name, HostReported(report))

    def give_orders(
        self, leading: Leading, orders: "dict[str, KeeperOrder]", reached: "set[str]"
    ) -> None:
        lines = self.record.lines
        for name, order in orders.items():
            if name == self.name:
                self.obey(order, leading.term)
            elif name in reached:
                known = name in leading.member.nodes
                self.send(name, LeaderOrdered(order, leading.term, [] if known else lines))

    def obey(self, order: KeeperOrder, term: int, lines: "Sequence[RecordLine]" = ()) -> None:
        """Execute a leader's order, unless a later leader has sent one before."""
        if term < self.term:
            return
        self.term, self.led, self.alone = term, time.monotonic(), False
        for line in lines[len(self.record.lines) :]:
            self.record.fold(line)
        if self.queue is not None and order.queue:
            self.queue.queue.order = order.queue
        # one of these: `hub` is set as long as ranks run, so what may come beside it goes above
        if order.end:
            self.host.end("the run has ended")
            self.over = not self.is_leader()
        elif order.clear and not self.host.has_cleared(order.clear):
            self.host.clear(order.clear)
        elif order.begin and self.host.is_before(order.number):
            self.host.begin(order.begin, order.number)
        elif order.hub:
            self.host.join_hub(order.hub, order.number)

    def look_at_queue(self, queued: QueuedPlace, now: float) -> None:
        place = queued.look(now, alone=self.alone, idle=self.host.is_idle())
        if place not in (None, self.host.report.place):
            self.host.set("place", place)

    def others_know(self, now: float) -> bool:
        """Return whether all hosts have ended, or had enough time: not all may be reached."""
        reached = self.links.connected()
        if not self.ending:
            self.ending, self.awaited = now, {*self.plan.hosts} - {self.name} - reached
        self.awaited -= reached
        return now - self.ending > LINGERS or not (reached or self.awaited)

    def look_for_leader(self, now: float) -> None:
        """End the part without a leader: in a divided network, only the larger side may go on."""
        if self.over:
            return
        stop = self.host.report.stop
        if self.record.end is not None and (not self.is_leader() or self.others_know(now)):
            self.host.end("the run has ended")
            self.over = True
        if not self.alone and now - self.led > self.plan.lease + ALONE:
            self.alone = True
            if not self.is_last_attempt():
                self.host.end(SMALLER % self.name)
        if self.alone and self.is_last_attempt() and not stop:
            self.finish_alone()
            return
        patience = LOST if self.record.attempts else FOREVER
        if self.alone and (stop or now - self.led > patience):
            why = "stopped by %s" % stop if stop else SMALLER % self.name
            self.note(RunEnded(why, False, by_user=bool(stop), cut_off=not stop))
            queued_runs.forget_order(self.folder, self.name)
            self.host.end(why)
            self.over = True

    def is_last_attempt(self) -> bool:
        """Return whether ranks run that no host may start again: then no leader is needed."""
        return self.record.phase() == "watch" and not self.plan.restarts

    def finish_alone(self) -> None:
        """Note the end of a run without restarts, whose other hosts are not reached."""
        over = self.host.report.over
        if over is not None:
            well = over.well or over.finished
            ending = restart_policy.classify_ending(over.facts, over.seconds)
            self.note(RunEnded("done" if well else ending.why, well))
        elif self.host.part is None:  # the ranks are on others
            self.note(RunEnded(SMALLER % self.name, False, cut_off=True))
        self.over = over is not None or self.host.part is None

    def note_record(self) -> None:
        for line in self.record.lines[self.noted :]:
            if isinstance(line, AttemptBegins):
                line = line.replace(run_id=run_id_of(self.base, line.attempt))
            self.note(line)
            self.noted += 1
            self.notices.take_line(line, is_leader=self.is_leader())
            queued_runs.forget_order(self.folder, self.name)

    def note(self, line: RecordLine) -> None:
        """Append a line to RUN/attempts."""
        try:
            is_first = not (self.plan.queued or self.noted)
            attempt_lines.append_line(self.folder, self.name, line, is_first)
        except OSError:
            pass  # a full disk
