"""The supervisor of a run on one host: a separate process in a separate session.

It lives as long as the run; guardian.py starts it. What the run does next is decided in the hub
(remote/hub), which links the supervisors of a run. Whatever ends the run, the supervisor leaves no
process of it behind and reports what it found.
"""

import os
import queue
import shutil
import threading
import time

from ipexctl.common import hub_orders, run_events, watch_orders
from ipexctl.common.control_questions import (
    EndRun,
    LookAtRanks,
    StopRun,
    SupervisorQuestion,
)
from ipexctl.common.journal_records import (
    RUN_FORMAT,
    FactNoted,
    InputsNoted,
    JournalRecord,
    LogBegan,
    LogEnded,
    LookNoted,
    PaceNoted,
    PartEnded,
    RanksSignalled,
    RunBegan,
)
from ipexctl.common.run_orders import StartOrder
from ipexctl.common.supervisor_messages import (
    EventSent,
    JournalGrew,
    PartReport,
    SupervisorDone,
)
from ipexctl.common.supervisor_state import SupervisorState
from ipexctl.common.wrapper_messages import AskRefused, EndNoted, LaunchDone
from ipexctl.remote import root_folder
from ipexctl.remote.checkpoints import copy_link
from ipexctl.remote.failure import Failure
from ipexctl.remote.hub import hub
from ipexctl.remote.own_process import no_core_dump, start_thread
from ipexctl.remote.rank import rank_wrapper
from ipexctl.remote.run import (
    control,
    health_sampler,
    host_programs,
    last_minute,
    rank_progress,
    rank_sockets,
    traffic,
    watchers,
)
from ipexctl.remote.run_files import journal, run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    import mmap
    import socket
    from typing import Any

    from ipexctl.common.frames import Frames
    from ipexctl.remote.run.notifier import RunNotices

    Key = int | str  # of a log: a rank, or a program
    Record = dict[str, Any]


def run_supervisor(
    link: "Frames",
    order: StartOrder,
    scratch: str,
    pulse: "mmap.mmap",
    notices: "RunNotices",
    copier: "socket.socket | None",
) -> None:
    """Supervise this host's part of a run until it is over. The guardian watches `pulse`, and has
    started the process at the other end of `copier`, if the run has one."""
    supervisor = Supervisor(link, order, scratch, pulse, notices, copier)
    try:
        supervisor.serve()
    finally:
        supervisor.end("it failed")


class Supervisor:
    def __init__(
        self,
        link: "Frames",
        order: "StartOrder",
        scratch: str,
        pulse: "mmap.mmap",
        notices: "RunNotices",
        copier: "socket.socket | None" = None,
    ) -> None:
        self.pulse, self.notices, self.copier = pulse, notices, copier
        self.run_id = run_folders.checked_id(order.run_id)
        root = root_folder.prepare_root(order.root)
        self.dir = root_folder.make_subfolder(root, "runs", self.run_id)
        for folder in [self.dir] + [
            run_folders.path_in_run_folder(root, path) for path in order.data
        ]:
            run_folders.hold_folder(folder)
        self.logs = root_folder.make_subfolder(self.dir, "logs")
        self.scratch = scratch
        self.plan: StartOrder = order
        self.began = time.monotonic()
        self.journal = None  # type: journal.Journal | None
        self.writing = threading.Lock()
        self.lease = order.lease
        self.last_heard = time.monotonic()  # when a watching command last sent a message
        self.inbox: "queue.Queue[hub_orders.HostOrder]" = queue.Queue()  # for the main thread
        self.watchers = watchers.Watchers(self.hear)
        self.starter = watchers.Watcher(link)  # the command that starts the run
        self.lock = threading.Lock()
        self.programs = host_programs.HostPrograms(self, scratch)
        self.ranks = rank_sockets.Ranks(self)
        self.sampler = health_sampler.Sampler(self)
        self.traffic = traffic.TrafficReader(self, order.store_port)
        samples = journal.History(journal.samples_path(self.dir, order.host))
        self.pace = last_minute.Pace(self.sampler, self.traffic, samples)
        self.progress = rank_progress.Progress(self)
        # when the main thread began its current order
        self.busy_since = None  # type: float | None
        self.succeeded = False  # all ranks of the run have
        self.stopped = ""  # why the run ends here
        self.ending_since = None  # type: float | None  # when that was decided
        self.over = False
        self.survivors = None  # type: list[int] | None
        self.role: "hub.Hub | hub.HubSpoke"
        self.role = hub.Hub(self, order.run) if order.run else hub.HubSpoke(self, order)

    # -- life --

    def serve(self) -> None:
        """Serve this host's part of the run from the first journal record to the final report."""
        if self.plan.secret:  # also for MPI's programs and the ranks
            no_core_dump()
        rank_wrapper.set_subreaper()  # orphans stay below this process, and are found
        try:
            self.journal = journal.create_journal(self.dir, self.plan.host)
            listener = self.ranks.listen()
            self.programs.write()
            control.serve_control_socket(
                self.dir, self.plan.host, self.answer, self.watchers.add_socket
            )
        except OSError as e:
            raise cannot_write(e, self.dir) from None
        self.note(RunBegan(RUN_FORMAT, self.plan.about, time.time()), sync=True)
        self.add(InputsNoted(self.plan.inputs, self.plan.run.inputs if self.plan.run else {}))
        try:
            port = self.role.begin()
            self.watchers.add(self.starter)
            start_thread(self.ranks.accept, listener)
            start_thread(self.watch_lease)
            start_thread(self.sampler.loop, lambda: self.over)
            start_thread(self.traffic.loop, lambda: self.over)
            start_thread(self.progress.loop, lambda: self.over)
            if self.copier is not None:
                copy_link.wait_for_copier(self.copier)
                copy_link.forward_copier_events(self.copier, self.report, lambda: self.over)
            sizes = journal.sizes_path(self.dir, self.plan.host)
            logs = {rank.rank: run_folders.log_of(self.dir, rank.rank) for rank in self.plan.ranks}
            start_thread(journal.keep_sizes, sizes, logs, lambda: self.over)
            self.report(run_events.Ready(port))
            self.emit(run_events.Ready(port))
            survivors = len(self.end(self.orders()))
            outcome = self.role.finish(survivors)
            exchanged, pace = self.traffic.last_report(), self.pace.last_minute()
            report = PartReport(survivors, self.logs, outcome, exchanged, pace=pace)
            self.watchers.tell_last(SupervisorDone(report))
        finally:
            listener.close()

    def hear(self, watcher: "watchers.Watcher", order: "watch_orders.WatchOrder | None") -> None:
        """Handle an order of a command that watches the run. None: its connection ended."""
        is_starter = watcher is self.starter
        if order is None:
            if is_starter:
                self.role.starter_gone("the connection to ipexctl ended")
            return
        if is_starter:
            self.last_heard = time.monotonic()
        if isinstance(order, watch_orders.Ping):
            watcher.put(EventSent(run_events.Pong()))
        elif isinstance(order, watch_orders.EndPart):
            self.stop("ended")
        else:
            self.role.ask(order)

    def stop(self, why: str) -> None:
        self.stopped = self.stopped or why
        self.set_ending()
        self.inbox.put(hub_orders.Stop())

    def set_ending(self) -> None:
        self.ending_since = self.ending_since or time.monotonic()

    def is_ending(self, moment: float) -> bool:
        """Return whether the run was ending here at that time: later ends were caused by that."""
        return self.ending_since is not None and moment >= self.ending_since

    def orders(self) -> str:
        """Execute orders until the run has to end; returns why."""
        while True:
            self.busy_since = None
            order = self.inbox.get()
            self.busy_since = time.monotonic()
            if isinstance(order, hub_orders.Stop):
                return self.stopped or order.why
            self.obey(order)

    def obey(self, order: "hub_orders.HostOrder") -> None:
        """Execute one order of the hub."""
        if isinstance(order, hub_orders.Spawn):
            self.programs.spawn(order.program, order.argv)
        elif isinstance(order, hub_orders.Kill):
            self.programs.kill(order.program)
        elif isinstance(order, hub_orders.RankNoted):
            rank_sockets.send_if_connected(self.ranks.links.get(order.rank), EndNoted())
        elif isinstance(order, hub_orders.SignalRanks):
            self.note(RanksSignalled(order.why))
            self.ranks.signal(order.signal)
        elif isinstance(order, hub_orders.Look):
            start_thread(self.look, order.number)
        elif isinstance(order, hub_orders.TellCopier):
            copy_link.tell_copier(self.copier, order.order)
        elif isinstance(order, hub_orders.Note):
            self.note_facts(order.facts)
        elif isinstance(order, hub_orders.LaunchEnded):
            launch = self.ranks.launches.get(order.key)
            rank_sockets.send_if_connected(launch, LaunchDone(order.code))
        elif isinstance(order, hub_orders.LaunchRefused):
            rank_sockets.send_if_connected(
                self.ranks.launches.get(order.key), AskRefused(order.why)
            )

    def note(self, record: JournalRecord, sync: bool = False, last: bool = False) -> None:
        """Append a record to the journal, and tell the watchers that there is a new one."""
        self.add(record, sync, last)
        self.watchers.tell(JournalGrew())

    def add(self, record: JournalRecord, sync: bool = False, last: bool = False) -> None:
        """Append a record to the journal, with the seconds since the run began here."""
        with self.writing:
            if self.journal is None:
                return
            written = self.journal.add(record, time.monotonic() - self.began, sync)
            if last:
                self.journal.trim()
        if not written:
            self.watchers.tell(JournalGrew(record))

    def look(self, number: int) -> None:
        """Look at the ranks as the hub ordered, and write the result to the journal."""
        _, ranks, computes = self.progress.look()
        self.note(LookNoted(number, ranks, time.time()))
        self.report(run_events.LookDone(number, computes))

    def note_facts(self, facts: "list[run_events.Fact]") -> None:
        """Record what the hub says about the run."""
        decisive = any(run_events.is_decisive(fact.event) for fact in facts)
        if any(isinstance(fact.event, run_events.RanksSucceeded) for fact in facts):
            self.succeeded = True
        for number, fact in enumerate(facts, 1):
            self.add(FactNoted(fact), sync=decisive and number == len(facts))
        self.notices.take_facts(facts)
        self.watchers.tell(JournalGrew())

    def answer(self, message: "Record") -> "Record":
        """Answer a question or an order from this host (control.py)."""
        is_known = SupervisorQuestion.kind_of(message) is not None  # else of another version
        question = SupervisorQuestion.read(message) if is_known else None
        state = SupervisorState(alive=True)
        if isinstance(question, StopRun):
            self.report(run_events.StopAsked(question.by, question.seconds))
        elif isinstance(question, EndRun):
            self.stop(question.why)
        elif isinstance(question, LookAtRanks):
            state.quiet, state.look, state.computes = self.progress.look()
            state.pace = self.pace.last_minute()
        return state.document()

    def report(self, event: run_events.Event) -> None:
        """Report an event to the hub."""
        self.role.report(event)

    def emit(self, event: run_events.Event) -> None:
        """Send an event to all watchers; the run does not wait for them."""
        self.watchers.tell(EventSent(event))

    def watch_lease(self) -> None:
        while not self.over:
            now = time.monotonic()
            if now - (self.busy_since or now) < self.lease:
                self.pulse[0] = (self.pulse[0] + 1) % 256
            if not self.stopped:
                self.role.look_at_other_end(self.lease)
            time.sleep(0.5)

    def end(self, why: str) -> "list[int]":
        """Kill what is left of the run; returns the processes that could not be killed."""
        with self.lock:
            if self.survivors is None:
                self.set_ending()
                self.over = True
                copy_link.end_copier(self.copier)
                self.survivors = rank_wrapper.kill_all(self.run_id, os.getpid())
                exchanged = self.traffic.last_report()
                shutil.rmtree(self.scratch, ignore_errors=True)
                self.note(PaceNoted(self.pace.last_minute(), self.pace.whole_run()))
                ended = PartEnded(why, len(self.survivors), exchanged)
                self.note(ended, sync=True, last=True)
            return self.survivors

    # -- logs --

    def begin_log(self, key: "Key", path: str) -> None:
        """Create the log; agents read it from now on."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        self.note(LogBegan(key, os.path.basename(path)))

    def end_log(self, key: "Key") -> None:
        self.note(LogEnded(key))


def cannot_write(error: OSError, folder: str) -> "Failure":
    place = os.path.dirname(error.filename or "") or folder
    return Failure("cannot write to %s: %s" % (place, error.strerror or error), slug="write-failed")
