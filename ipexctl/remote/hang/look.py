"""Look at what each rank of this host does right now; the controller infers who hangs.

Anything that may wait for a rank, or for a dead file server, is done in a separate thread;
what a thread has not found in time is missing from the result.
"""

import os
import struct
import time

from ipexctl.common.addresses import host_port
from ipexctl.common.rank_looks import (
    RankConnection,
    RankLook,
    StackFrame,
    ThreadLook,
    ThreadWait,
    WaitSource,
)
from ipexctl.common.tolerant_reads import link_of, read_text
from ipexctl.common.waiting import wait_until
from ipexctl.remote.hang import process_state, python_stacks, waiting_loop
from ipexctl.remote.own_process import start_thread
from ipexctl.remote.rank import rank_wrapper, socket_table

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.common.rank_looks import ThreadReport

    Processes = dict[int, tuple[str, int]]  # state and parent by process id

ANSWERS, ENDS = 0.4, 0.6  # seconds to wait after the interval: for answers, for all threads
CHILDREN, CHILD_THREADS, ASKED, CONNECTIONS, FRAMES = 16, 4, 64, 32, 40
FORKS = "/multiprocessing/popen_fork.py"


def look_at_ranks(
    site: "str | None", ranks: "dict[int, int]", seconds: float = 1.0
) -> "list[RankLook]":
    """Look at each rank. `ranks`: {rank: pid of its script}; `site`: the folder of rank_site.py, or
    None; `seconds`: the time over which CPU use is measured."""
    start = time.monotonic()
    site = os.path.realpath(site) if site else None
    alive = rank_wrapper.list_processes()
    connections = Connections()
    lookers = [RankLooker(site, rank, ranks[rank], alive) for rank in sorted(ranks)]
    threads = [connections.thread]
    for looker in lookers:
        work = (connections, start + seconds + ANSWERS)
        threads.append(start_thread(looker.examine, *work))
    time.sleep(max(0.0, start + seconds - time.monotonic()))
    alive = rank_wrapper.list_processes()
    for looker in lookers:
        looker.measure(alive)
    for thread in threads:
        thread.join(max(0.0, start + seconds + ENDS - time.monotonic()))
    return [looker.result(alive) for looker in lookers]


class Connections:
    """The TCP connections of this host; none if the kernel does not report them."""

    def __init__(self) -> None:
        self.found = []  # type: list[socket_table.Connection]
        self.peers = {}  # type: dict[int, str]  # inode -> the other end
        self.thread = start_thread(self.read)

    def read(self) -> None:
        try:
            connections = list(socket_table.list_connections())
        except (OSError, struct.error):
            return
        self.peers = {row.inode: host_port(*row.key[2:]) for row in connections if row.inode}
        self.found = connections

    def of(self, pid: int, parent: int) -> "tuple[RankConnection, ...]":
        """Return up to CONNECTIONS of a rank's connections, unanswered ones first."""
        inodes = socket_table.own_sockets(pid, parent)
        rows = []
        for link in self.found:
            if link.inode in inodes:
                here, peer = host_port(*link.key[:2]), host_port(*link.key[2:])
                unread, unsent = link.waiting
                unanswered = round(link.unanswered, 1)
                rows.append(RankConnection(here, peer, unsent, unread, link.retries, unanswered))
        rows.sort(key=lambda row: (-row.unanswered, -row.unsent - row.unread))
        return tuple(rows[:CONNECTIONS])


class RankLooker:
    def __init__(self, site: "str | None", rank: int, pid: int, alive: "Processes") -> None:
        self.site, self.pid = site, pid
        self.parent = alive.get(pid, ("X", 0))[1]
        self.below = sorted(rank_wrapper.find_descendant_pids(pid, alive))
        self.rank = rank
        self.seen = {}  # type: dict[int, RankLook]  # child process id -> what is known of it
        self.our_cpu = 0.0  # CPU seconds that answers to this look took
        self.row = RankLook(
            rank,
            pid,
            stacks="silent" if site else "none",
            collectives_why="silent" if site else "not asked",
        )
        self.began = time.monotonic()
        self.before = self.read_cpu_use([pid] + self.below)

    def read_cpu_use(self, pids: "list[int]") -> "tuple[dict[int, float], float]":
        cpu = {pid: process_state.cpu_seconds(pid) for pid in pids}
        return cpu, process_state.cpu_seconds("%d/task/%d" % (self.pid, self.pid), False)

    def examine(self, connections: "Connections", deadline: float) -> None:
        try:
            self.look_at_kernel()
            self.ask(connections, deadline)
        except (OSError, ValueError, KeyError, IndexError, struct.error):
            pass  # the rank ended meanwhile: what was found stays

    def look_at_kernel(self) -> None:
        """Read the kernel's view before asking the rank: an answer would show up in it."""
        for pid in self.below[:ASKED]:
            self.seen[pid] = RankLook(self.rank, pid, ended=process_state.exit_status(pid))
            set_kernel_state(self.seen[pid])
        set_kernel_state(self.row)

    def ask(self, connections: "Connections", deadline: float) -> None:
        """Ask the rank and its children for their stacks and waits, until `deadline`."""
        pids = [self.pid] + self.below[:ASKED]
        stacks = {pid: python_stacks.Question(self.site, pid) for pid in pids}
        recorded = python_stacks.RankQuestion(self.site, self.pid, self.row.state)
        connections.thread.join(max(0.0, deadline - time.monotonic()))
        for pid in pids:
            row = self.seen.get(pid, self.row)
            set_blocked_on(row, pid, connections)
            if row.blocked_on and row.blocked_on.open:
                pipe = row.blocked_on.open
                others = [other for other in pids if other not in (self.pid, pid)]
                holders = [other for other in others if process_state.has_open(other, pipe)]
                row.blocked_on = row.blocked_on.replace(pids=tuple(holders[:CHILDREN]))
        self.row.connections = connections.of(self.pid, self.parent)

        def is_answered() -> bool:
            finished = [question.is_over(time.monotonic()) for question in stacks.values()]
            return all(finished) and recorded.is_over()

        wait_until(is_answered, deadline - time.monotonic(), 0.02)
        self.row.collectives, self.row.collectives_why, waits = recorded.answer()
        self.our_cpu = recorded.cpu
        for pid, question in stacks.items():
            why, threads = question.answer()
            row = self.seen.get(pid, self.row)
            row.forked = question.find_fork()
            if pid == self.pid:
                row.stacks = why
                add_waits(threads, waits, pid, connections)
            else:
                threads[:1] = map(without_parent, threads[:1])
            row.threads = tuple(threads)
            self.find_source(row, pid)

    def find_source(self, row: RankLook, pid: int) -> None:
        """Add the line of each thread's own code, and whether the main thread's loop only waits."""
        folder = link_of("/proc/%d/cwd" % pid)
        for thread in row.threads:
            frame = waiting_loop.own_frame(thread.frames, self.site)
            if frame is None:
                continue
            lines = waiting_loop.source_of(frame.path, folder)
            has_line = 0 < frame.line <= len(lines)
            text = lines[frame.line - 1].strip()[: waiting_loop.TEXT] if has_line else ""
            thread.source = WaitSource(frame.path, frame.line, frame.function, text)
            if thread.main:
                row.source = thread.source
                row.waits_in_loop = has_line and waiting_loop.waits_in_loop(lines, frame.line)

    def measure(self, alive: "Processes") -> None:
        pids = [self.pid] + sorted(rank_wrapper.find_descendant_pids(self.pid, alive))
        self.seconds = time.monotonic() - self.began
        self.after = self.read_cpu_use(pids)

    def result(self, alive: "Processes") -> RankLook:
        """Return the rank's look, with the CPU use over the interval and its child processes."""
        (cpu, main), (cpu_after, main_after) = self.before, self.after
        children = [self.describe_child(pid, alive, cpu, cpu_after) for pid in self.below]
        children.sort(key=lambda child: (not child.exited, not child.threads, child.pid))
        return self.row.replace(
            cpu=self.share(sum(cpu_after.values()) - sum(cpu.values()) - self.our_cpu),
            main_cpu=self.share(main_after - main),
            threads=shorten_stacks(self.row.threads),
            children=tuple(children[:CHILDREN]),
        )

    def describe_child(
        self, pid: int, alive: "Processes", before: "dict[int, float]", after: "dict[int, float]"
    ) -> RankLook:
        state, parent = alive.get(pid, ("X", 0))[:2]
        seen = self.seen.get(pid, RankLook(self.rank, pid))
        return seen.replace(
            parent=parent,
            name=read_text("/proc/%d/comm" % pid).strip()[: process_state.NAME],
            exited=state in "ZX",
            state=state,
            cpu=self.share(after.get(pid, 0.0) - before.get(pid, 0.0)),
            threads=shorten_stacks(seen.threads[:CHILD_THREADS]),
        )

    def share(self, seconds: float) -> float:
        return round(max(0.0, seconds / max(self.seconds, 0.001)), 3)


def without_parent(thread: ThreadLook) -> ThreadLook:
    """Cut the parent's frames off the stack of a process forked by multiprocessing."""
    ends = [i for i, frame in enumerate(thread.frames) if frame.path.endswith(FORKS)]
    return thread.replace(frames=thread.frames[: ends[0]]) if ends else thread


def shorten_stacks(threads: "tuple[ThreadLook, ...]") -> "tuple[ThreadLook, ...]":
    return tuple(thread.replace(frames=thread.frames[:FRAMES]) for thread in threads)


def is_place(innermost: "tuple[StackFrame, ...]", place: StackFrame) -> bool:
    return innermost == (python_stacks.shorten_frame(place),)


def set_kernel_state(row: RankLook) -> None:
    """Set what the main thread of a process does in the kernel."""
    task = "/proc/%d" % row.pid
    row.syscall, row.wchan = process_state.system_call(task), process_state.wait_channel(task)
    row.state = process_state.read_process_state(row.pid)


def set_blocked_on(row: "RankLook | ThreadLook", pid: int, connections: "Connections") -> None:
    waits = process_state.blocked_on(pid, row.syscall, row.wchan, connections.peers)
    row.blocked_on = None if row.state in "RX" else waits


def add_waits(
    threads: "list[ThreadLook]", waits: "list[ThreadReport]", pid: int, connections: "Connections"
) -> None:
    """Add to each thread what its rank reports about it, if it did not go on since its stack was
    written, and what it does in the kernel."""
    reports = {report.id: report for report in waits}
    for thread in threads:
        report = reports.get(thread.id)
        if report is None:
            continue
        thread.name = report.name or thread.name
        if report.place and is_place(thread.frames[:1], report.place):
            thread.waits = ThreadWait(**{name: getattr(report, name) for name in ThreadWait._names})
        if report.native and not thread.main:
            task = "/proc/%d/task/%d" % (pid, report.native)
            thread.state = process_state.read_thread_state(task)
            thread.syscall = process_state.system_call(task)
            thread.wchan = process_state.wait_channel(task)
            set_blocked_on(thread, pid, connections)
