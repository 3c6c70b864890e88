"""The keeper of a run with --restarts on one host: it lives from the first attempt to the last.

It watches this host's part of each attempt by its journal, tells the voters how it is
(HostReported), and obeys the orders of the one that leads. The first hosts are voters: they keep
the record of the run (record.py, voters.py), and one of them leads (leader.py). The lines of the
record are in `RUN/attempts.HOST`. A host that no leader reaches ends its ranks, and looks for one.
"""

import os
import queue
import threading
import time
from contextlib import suppress
from functools import partial

from ipexctl.common.attempt_record import (
    AttemptBegins,
    KeeperAnswer,
    KeeperNote,
    KeeperQuestion,
    Leads,
    QueuedRun,
    RecordLine,
    RunEnded,
    RunQueued,
)
from ipexctl.common.control_questions import EndRun
from ipexctl.common.keeper_messages import (
    CLAIMS,
    LEFT,
    BeginPart,
    HostReport,
    HostReported,
    KeeperMessage,
    KeeperOrder,
    LeaderOrdered,
    PartFailed,
    PartReady,
    Vote,
)
from ipexctl.common.processes import user_name
from ipexctl.common.restart_plan import RestartPlan, VoterPlan
from ipexctl.common.root_paths import run_id_of
from ipexctl.common.run_orders import StartOrder
from ipexctl.common.watch_orders import HubAt
from ipexctl.remote import root_folder
from ipexctl.remote.checkpoints import checkpoint_rules, checkpoint_transfer
from ipexctl.remote.checkpoints.copy_folder import Changed
from ipexctl.remote.connection import hub_link
from ipexctl.remote.failure import Failure, bug_document
from ipexctl.remote.own_process import close_files, no_core_dump, start_thread
from ipexctl.remote.rank import rank_wrapper
from ipexctl.remote.restart import (
    core_queue,
    guardian_starter,
    keeper_notices,
    leader,
    restart_policy,
    voters,
)
from ipexctl.remote.restart.attempt_part import Part
from ipexctl.remote.restart.record import RestartRecord
from ipexctl.remote.run import control
from ipexctl.remote.run_files import attempt_lines, needed_envs, queued_runs, run_about, run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Sequence
    from typing import Any

NAME = "ipexctl-keeper"
LOOK = 0.25
LAST_WORDS = 2.0
LINGERS = 8.0  # seconds for which the leader stays, until the others know of the end
SAYS = 2.0  # seconds until a state or an order is sent again
ALONE = 5.0  # seconds beyond the lease without a leader
LOST = 600.0  # seconds without a leader, until this keeper ends
FOREVER = float("inf")  # a queued run waits until its hosts are back
WAKES = 60.0  # seconds for a command to start the keepers of earlier queued runs again
COMMIT = 10.0  # for a line to become part of the record
SMALLER = "not more than half of the voters are reached from %s"
ENV_REMOVED = "its environment was removed (ipexctl install with its ipexctl.lock builds it again)"
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
        keeper.end_part(problem)


class Keeper:
    def __init__(self, order: StartOrder, starter: "guardian_starter.Starter") -> None:
        self.order, self.starter = order, starter
        self.restart_plan = RestartPlan.read(order.restart_plan)
        self.name, self.keys = order.host, order.keys
        root = root_folder.prepare_root(self.order.root)
        self.base = run_folders.checked_id(self.restart_plan.run_id)  # of the first attempt
        self.runs = os.path.join(root, "runs")
        self.folder = root_folder.make_subfolder(root, "runs", self.base)
        run_folders.hold_folder(self.folder)
        self.copies = checkpoint_transfer.CheckpointCopies(self.runs, self.keys)
        with suppress(OSError):  # a full disk
            needed_envs.note_needed_env(self.folder, order)
        self.began = self.note_beginning()
        self.inbox = queue.Queue()  # type: queue.Queue[tuple[str, object]]
        self.queue = self.make_queue()
        first = [] if self.queue else self.restart_plan.first
        self.record, self.noted = RestartRecord(first), 0
        self.part = None if order.spare else Part(self, order, 1)
        self.laying = threading.Lock()  # one attempt at a time lays a checkpoint out
        self.state = HostReport()  # of this host's part, as the leader has to know
        self.since = {}  # type: dict[str, float]  # when each field of it was set
        self.clearing = 0  # the attempt that has to end here
        self.said = {}  # type: dict[str, HostReport]  # the last report of each host
        self.next_word = self.next_order = 0.0
        self.term, self.alone = 0, False
        # when this keeper began, when a leader was heard, and the last turn
        self.woke = self.led = self.turned = time.monotonic()
        self.over = False
        self.ending = 0.0  # since when it is known that the run is over
        self.awaited = set()  # type: set[str]  # hosts that were away then, and have not come since
        self.orders = {}  # type: dict[str, KeeperOrder]  # the last ones
        self.led_term = self.ordered = 0
        self.wanted = 0.0
        self.notices = keeper_notices.KeeperNotices(order, self.folder)  # this forks
        self.connect_voters()

    def make_queue(self) -> "core_queue.CoreQueue | None":
        """Return the place of a run with --queue, and record what a reboot must not end."""
        queued = self.restart_plan.queued
        if not queued:
            return None
        self.note(RunQueued(queued, self.order.about))
        if not self.order.secret:  # then nothing of it may be on a disk
            queued_runs.keep_order(self.folder, self.order)
        cpus = {cpu for rank in self.order.ranks for cpu in rank.cpus}
        return core_queue.CoreQueue(self.base, queued, cpus, os.path.dirname(self.runs))

    def connect_voters(self) -> None:
        """Connect to the voters before this host in the list; a voter listens for later hosts."""
        places = self.restart_plan.places
        names, hosts = [place[0] for place in places], self.restart_plan.hosts
        earlier = names[: names.index(self.name)] if self.name in names else names
        self.member = None  # type: voters.Member | None
        self.leader = None  # type: leader.Leader | None
        self.hub = None  # type: hub_link.HubListener | None
        self.spokes = {}  # type: dict[str, hub_link.Spoke]
        if self.name in names:
            returned = self.order.returned
            self.member = voters.Member(self.name, names, self.send, self.record.add, returned)
            later_hosts = [host for host in hosts if host not in earlier and host != self.name]
            if later_hosts:
                _, address, port = places[names.index(self.name)]
                self.hub = hub_link.HubListener(later_hosts, self.keys, self.take, renews=True)
                self.hub.listen(address, (port, port))
        for name, address, port in places[: len(earlier)]:
            take = partial(self.take, name)
            spoke = hub_link.Spoke(self.name, name, self.keys, take, renews=True)
            spoke.connect(address, port)
            self.spokes[name] = spoke

    def note_beginning(self) -> float:
        """Return when the first keeper of the run began here, before any rank: this one may be of
        a host that was lost and is back."""
        path = os.path.join(self.folder, "began.%s" % os.path.basename(self.name))
        try:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
            return os.stat(path).st_mtime
        except OSError:  # a full disk
            return time.time()

    def keep(self) -> None:
        """Answer this host's processes, and process messages until the run is over."""
        control.serve_control_socket(
            self.folder, control.keeper_of(self.name), self.answer, lambda link: None
        )
        while not self.over:
            self.turn()
        for link in [self.hub, *self.spokes.values()]:
            if link is not None:
                link.flush(LAST_WORDS)
                link.close()

    def take(self, name: str, message: object) -> None:
        """Queue a message of another keeper, or an event of this host."""
        self.inbox.put((name, message))

    def send(self, name: str, message: KeeperMessage) -> None:
        """Send a message to a host if it is connected; states and orders are sent again."""
        if name in self.spokes:
            self.spokes[name].send(message.document())
        elif self.hub is not None:
            self.hub.send(name, message.document())

    def connected(self) -> "set[str]":
        reached = {name for name, spoke in self.spokes.items() if spoke.connected()}
        return reached | (self.hub.connected() if self.hub is not None else set())

    def answer(self, message: "dict[str, Any]") -> "dict[str, Any]":
        """Answer a process of this host (control.py), which sends a KeeperQuestion: whether this
        keeper leads, what it waits for, and orders for a returned host."""
        question = KeeperQuestion.read(message)
        if question.stop:
            self.take(self.name, question)
        own_leader, reached = self.leader, self.connected() | {self.name}
        if own_leader is None:
            why = SMALLER % self.name + RETURNED if self.alone else ""
            return KeeperAnswer(waits=why).document()
        away = [name for name in self.restart_plan.hosts if name not in reached]
        returned = question.returned
        order = own_leader.make_returned_order(returned) if returned in away else None
        orders = order.replace(keys=self.keys).document() if order else {}
        count, leader = len(self.restart_plan.hosts), own_leader
        return KeeperAnswer(True, leader.waits, leader.before, away, orders, count).document()

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
        now, reached = time.monotonic(), self.connected()
        if now - self.turned > ALONE:  # it was frozen: first wait for a message of the leader
            self.led = max(self.led, now - self.restart_plan.lease)
        self.turned = now
        if self.member is not None:
            self.member.tick(reached & set(self.member.nodes))
            self.lead_run(self.member, now, reached)
        self.note_record()
        self.look_at_part(now)
        self.look_at_queue(now)
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
            self.set_state("ready", message)
            if self.is_unwanted(message.attempt):  # there was no supervisor to ask before
                self.end_part("its attempt has ended")
        elif isinstance(message, PartFailed):
            self.set_state("failed", message)
        elif isinstance(message, KeeperQuestion):
            self.set_state("stop", message.stop)
            self.look_for_leader(time.monotonic())

    def set_state(self, kind: str, value: object) -> None:
        setattr(self.state, kind, value)
        self.since[kind] = time.monotonic()
        self.next_word = 0.0

    def mine(self, now: float) -> "HostReport":
        """Return this host's state, with ages as of now."""
        state = self.state.replace()
        if state.over:
            state.over = state.over.replace(ago=now - self.since["over"])
        if state.cleared:
            ago = now - self.since["cleared"]
            rows = [row.replace(age=row.age + ago) for row in state.cleared.checkpoints]
            state.cleared = state.cleared.replace(checkpoints=rows)
        return state

    def speak(self, now: float, reached: "set[str]") -> None:
        """Report this host's state to the voters every SAYS seconds, or at once after a change."""
        if now < self.next_word:
            return
        self.next_word = now + SAYS
        self.said[self.name] = state = self.mine(now)
        for name in reached & {place[0] for place in self.restart_plan.places}:
            self.send(name, HostReported(state))

    def lead_run(self, member: "voters.Member", now: float, reached: "set[str]") -> None:
        """Add lines to the record and send orders, while this host leads a majority of voters."""
        term = member.term()
        if not member.leads():
            self.leader = None
            return
        if self.leader is None or self.led_term != term:
            voter_plan = VoterPlan.read(self.order.restart_plan)
            self.leader = leader.Leader(voter_plan, self.name, self.record, now)
            self.led_term = term
            self.wanted, self.ordered = 0.0, -1
            member.propose(Leads(self.name), term)
        count = 1 + len(reached & set(member.nodes))
        if self.record.term != term or 2 * count <= len(member.nodes):
            return  # a majority must agree that it leads, and on each line
        lines = len(self.record.lines)
        if lines != self.ordered:
            self.ordered, self.wanted, self.next_order = lines, 0.0, 0.0
        line = self.leader.tick(now, reached, self.said)
        if line and now > self.wanted:
            self.wanted = now + COMMIT  # until then it may become part of the record
            member.propose(keeper_notices.sign_line(line, self.name), term)
        orders = self.leader.orders(self.said)
        if now > self.next_order or orders != self.orders:
            self.next_order, self.orders = now + SAYS, orders
            self.give_orders(member, orders, term, reached)

    def give_orders(
        self,
        member: "voters.Member",
        orders: "dict[str, KeeperOrder]",
        term: int,
        reached: "set[str]",
    ) -> None:
        lines = self.record.lines
        for name, order in orders.items():
            if name == self.name:
                self.obey(order, term)
            elif name in reached:
                self.send(name, LeaderOrdered(order, term, [] if name in member.nodes else lines))

    def obey(self, order: KeeperOrder, term: int, lines: "Sequence[RecordLine]" = ()) -> None:
        """Execute a leader's order, unless a later leader has sent one before."""
        number, clear = order.number, order.clear
        if term < self.term:
            return
        self.term, self.led, self.alone = term, time.monotonic(), False
        for line in lines[len(self.record.lines) :]:
            self.record.fold(line)
        part, cleared = self.part, self.state.cleared
        if self.queue is not None and order.queue:
            self.queue.order = order.queue
        if order.end:
            self.end_part("the run has ended")
            self.over = self.leader is None
            return
        if clear and (cleared is None or cleared.attempt < clear):
            if self.clearing != clear:
                self.clearing = clear
                self.end_part("the next attempt")
        elif order.begin and (part is None or part.attempt < number):
            self.start(order.begin, number)
        elif order.hub and part is not None and not part.joined:
            part.joined = part.attempt == number
            if part.joined:
                part.write(HubAt(*order.hub).document())

    def look_at_queue(self, now: float) -> None:
        """Report the place. A run that has no ranks here leaves the queue when it is over, and
        without a leader until there is one."""
        if self.queue is None:
            return
        order = CLAIMS if self.alone else self.queue.order
        if (self.alone or self.record.end) and (self.part is None or self.part.ended):
            order = LEFT
        place = self.queue.follow(order, now)
        if place is not None:
            earlier = [] if place.claimed else self.find_sleeping(now)
            place = place.replace(lacks=self.find_missing(), before=earlier + place.before)
        if place not in (None, self.state.place):
            self.set_state("place", place)

    def find_sleeping(self, now: float) -> "list[QueuedRun]":
        """Return the earlier runs of this user that have no keeper here yet. After a reboot, the
        command that lets this run wait again does so for these, too: until then it is after them.
        """
        if not self.order.woken or now - self.woke > WAKES:
            return []
        own = self.restart_plan.queued, self.base
        runs = [row for row in queued_runs.list_orders(self.runs, self.name) if row < own]
        owner = user_name(os.getuid())
        return [
            QueuedRun(
                int(since * 1000), run, run_about.read_owner(os.path.join(self.runs, run), owner)
            )
            for since, run in sorted(runs)
            if not control.is_alive(run, control.keeper_of(self.name))
        ]

    def find_missing(self) -> str:
        """Return what a queued run needs and this host has no more, "" if it has all."""
        if self.record.attempts:
            return ""
        pythons = {rank.argv[0] for rank in self.order.ranks}
        if not all(map(os.path.exists, pythons)):
            return ENV_REMOVED
        has_project = os.path.isdir(self.order.cwd)
        return "" if has_project else "the project's copy was removed: stop it, and run it again"

    def others_know(self, now: float) -> bool:
        """Return whether all hosts have ended, or had enough time: not all may be reached."""
        reached = self.connected()
        if not self.ending:
            self.ending, self.awaited = now, {*self.restart_plan.hosts} - {self.name} - reached
        self.awaited -= reached
        return now - self.ending > LINGERS or not (reached or self.awaited)

    def look_for_leader(self, now: float) -> None:
        """End the part without a leader: in a divided network, only the larger side may go on."""
        if self.over:
            return
        if self.record.end is not None and (self.leader is None or self.others_know(now)):
            self.end_part("the run has ended")
            self.over = True
        if not self.alone and now - self.led > self.restart_plan.lease + ALONE:
            self.alone = True
            if not self.is_last_attempt():
                self.end_part(SMALLER % self.name)
        if self.alone and self.is_last_attempt() and not self.state.stop:
            self.finish_alone()
            return
        patience = LOST if self.record.attempts else FOREVER
        if self.alone and (self.state.stop or now - self.led > patience):
            by_user = bool(self.state.stop)
            why = "stopped by %s" % self.state.stop if by_user else SMALLER % self.name
            self.note(RunEnded(why, False, by_user=by_user, cut_off=not by_user))
            queued_runs.forget_order(self.folder, self.name)
            self.end_part(why)
            self.over = True

    def is_last_attempt(self) -> bool:
        """Return whether ranks run that no host may start again: then no leader is needed."""
        return self.record.phase() == "watch" and not self.restart_plan.restarts

    def finish_alone(self) -> None:
        """Note the end of a run without restarts, whose other hosts are not reached."""
        part = self.state.over
        if part is not None:
            well = part.well or part.finished
            ending = restart_policy.classify_ending(part.facts, part.seconds)
            self.note(RunEnded("done" if well else ending.why, well))
        elif self.part is None:  # the ranks are on others
            self.note(RunEnded(SMALLER % self.name, False, cut_off=True))
        self.over = part is not None or self.part is None

    def attempts(self) -> "dict[str, int]":
        """Return {run id: number} of all attempts. Ids are derived, since they become paths."""
        numbers = [attempt.attempt for attempt in self.record.attempts]
        return {run_id_of(self.base, number): number for number in numbers}

    def start(self, begin: BeginPart, attempt: int) -> None:
        order = begin.asked
        run_id = run_id_of(self.base, attempt)
        order = order.replace(keys=self.keys, root=self.order.root, run_id=run_id)
        try:
            folder = root_folder.make_subfolder(os.path.dirname(self.runs), "runs", run_id)
        except Failure as e:  # a full disk: the leader has to know why this host cannot begin
            self.take(self.name, PartFailed(attempt, e.what))
            return
        run_folders.hold_folder(folder)
        self.part = Part(self, order, attempt)
        start_thread(self.begin_part, self.part, begin, self.attempts())

    def begin_part(self, part: "Part", begin: BeginPart, attempts: "dict[str, int]") -> None:
        """Lay out the checkpoint, then start. Meanwhile, another attempt may have followed."""
        layout, paths = begin.lay, []
        with self.laying:
            try:
                if begin.tidies and self.is_latest(part):
                    self.copies.put_newer_aside(part.order, layout, self.began)
                if layout and self.is_latest(part):
                    paths = self.copies.lay_out(part.order, layout, attempts)
                    self.copies.remove_old_copies(attempts, layout.needed)
                    part.order = part.order.replace(checkpoint_gap=layout.gap)
            except (Failure, OSError) as e:
                problem = e.what if isinstance(e, Failure) else str(e)
                self.take(self.name, PartFailed(part.attempt, problem))
                return
        if not self.is_latest(part):
            part.ended = True
            return
        part.begin(self.starter)
        try:
            if layout:
                self.copies.keep_laid_out(part.order, layout, paths)
            if part.checkpoints >= checkpoint_rules.KEPT:  # newer ones were completed meanwhile
                self.copies.release(part.order)
        except (Failure, OSError, Changed) as e:
            self.note(KeeperNote("no copy of %s: %s" % (layout.name if layout else "", e)))

    def is_latest(self, part: "Part") -> bool:
        return part is self.part and not self.is_unwanted(part.attempt)

    def is_unwanted(self, attempt: int) -> bool:
        """Return whether an attempt is over by the record: no process of it may begin."""
        return self.record.end is not None or attempt <= self.record.cleared()

    def look_at_part(self, now: float) -> None:
        """Report the end of this host's part, and that no rank of the last attempt is left."""
        part = self.part
        if part is not None:
            part.look(now)
        if part is not None and part.well and self.state.succeeded != part.attempt:
            self.set_state("succeeded", part.attempt)
        if part is not None and part.ended and not part.reported:
            part.reported = True
            self.set_state("over", part.end())
        if self.clearing and (part.ended if part else not self.is_left()):
            self.set_state("cleared", self.copies.report(self.attempts(), self.clearing))
            self.clearing = 0

    def is_left(self) -> bool:
        """Return whether the last attempt runs here: an earlier keeper may have started it."""
        return control.is_alive(os.path.join(self.runs, self.last_run_id()), self.name)

    def last_run_id(self) -> str:
        return run_id_of(self.base, self.record.number)

    def end_part(self, why: str) -> None:
        if not self.record.attempts:
            return
        if self.part is None or not self.part.ended:
            run_id = self.last_run_id() if self.part is None else self.part.run_id
            order = EndRun(why).document()
            control.ask_supervisor(os.path.join(self.runs, run_id), self.name, order)

    def note_record(self) -> None:
        for line in self.record.lines[self.noted :]:
            if isinstance(line, AttemptBegins):
                line = line.replace(run_id=run_id_of(self.base, line.attempt))
            self.note(line)
            self.noted += 1
            self.notices.take_line(line, is_leader=self.leader is not None)
            queued_runs.forget_order(self.folder, self.name)

    def note(self, line: RecordLine) -> None:
        """Append a line to RUN/attempts."""
        try:
            is_first = not (self.restart_plan.queued or self.noted)
            attempt_lines.append_line(self.folder, self.name, line, is_first)
        except OSError:
            pass  # a full disk
