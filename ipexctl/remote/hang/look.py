"""Look at what each rank of this host does right now; the controller infers who hangs.

Anything that may wait for a rank, or for a dead file server, is done in a separate thread;
what a thread has not found in time is missing from the result.
"""

import os
import struct
import time

from ipexctl.common.addresses import host_port
from ipexctl.common.tolerant_reads import link_of, read_text
from ipexctl.common.waiting import wait_until
from ipexctl.remote.hang import process_state, python_stacks, waiting_loop
from ipexctl.remote.own_process import start_thread
from ipexctl.remote.rank import rank_wrapper, socket_table

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    Row = dict[str, Any]  # of a rank, of one of its processes, or of a thread
    Processes = dict[int, tuple[str, int]]  # state and parent by process id

ANSWERS, ENDS = 0.4, 0.6  # seconds to wait after the interval: for answers, for all threads
CHILDREN, CHILD_THREADS, ASKED, CONNECTIONS, FRAMES = 16, 4, 64, 32, 40
FORKS = "/multiprocessing/popen_fork.py"


def look_at_ranks(site: "str | None", ranks: "dict[int, int]", seconds: float = 1.0) -> "list[Row]":
    """Return a dict for each rank. `ranks`: {rank: pid of its script}; `site`: the folder of
    rank_site.py, or None; `seconds`: the time over which CPU use is measured."""
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

    def of(self, pid: int, parent: int) -> "list[list[Any]]":
        """Return up to CONNECTIONS rows of a rank's connections, unanswered ones first."""
        inodes = socket_table.own_sockets(pid, parent)
        rows = []
        for link in self.found:
            if link.inode in inodes:
                unread, unsent = link.waiting
                counts = [unsent, unread, link.retries, round(link.unanswered, 1)]
                rows.append([host_port(*link.key[:2]), host_port(*link.key[2:])] + counts)
        rows.sort(key=lambda row: (-row[5], -row[2] - row[3]))
        return rows[:CONNECTIONS]


class RankLooker:
    def __init__(self, site: "str | None", rank: int, pid: int, alive: "Processes") -> None:
        self.site, self.pid = site, pid
        self.parent = alive.get(pid, ("X", 0))[1]
        self.below = sorted(rank_wrapper.find_descendant_pids(pid, alive))
        self.seen = {}  # type: dict[int, Row]  # child process id -> its state
        self.our_cpu = 0.0  # CPU seconds that answers to this look took
        self.row = self.make_empty_row(rank)
        self.began = time.monotonic()
        self.before = self.read_cpu_use([pid] + self.below)

    def make_empty_row(self, rank: int) -> "Row":
        """Return the row of a rank about which nothing could be found out yet."""
        return {
            "rank": rank,
            "pid": self.pid,
            "state": "X",
            "wchan": "",
            "syscall": None,
            "blocked_on": None,
            "stacks": "silent" if self.site else "none",
            "threads": [],
            "source": None,
            "waits_in_loop": False,
            "collectives": None,
            "collectives_why": "silent" if self.site else "not asked",
            "connections": [],
        }

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
            self.seen[pid] = process_state.kernel_state("/proc/%d" % pid)
            self.seen[pid]["state"] = process_state.read_process_state(pid)
            self.seen[pid]["ended"] = process_state.exit_status(pid)
        self.row.update(process_state.kernel_state("/proc/%d" % self.pid))
        self.row["state"] = process_state.read_process_state(self.pid)

    def ask(self, connections: "Connections", deadline: float) -> None:
        """Ask the rank and its children for their stacks and waits, until `deadline`."""
        pids = [self.pid] + self.below[:ASKED]
        stacks = {pid: python_stacks.Question(self.site, pid) for pid in pids}
        recorded = python_stacks.RankQuestion(self.site, self.pid, self.row["state"])
        connections.thread.join(max(0.0, deadline - time.monotonic()))
        for pid in pids:
            row = self.seen.get(pid, self.row)
            set_blocked_on(row, pid, connections)
            pipe = (row["blocked_on"] or {}).get("open")
            if pipe:
                others = [other for other in pids if other not in (self.pid, pid)]
                holders = [other for other in others if process_state.has_open(other, pipe)]
                row["blocked_on"]["pids"] = holders[:CHILDREN]
        self.row["connections"] = connections.of(self.pid, self.parent)

        def is_answered() -> bool:
            finished = [question.is_over(time.monotonic()) for question in stacks.values()]
            return all(finished) and recorded.is_over()

        wait_until(is_answered, deadline - time.monotonic(), 0.02)
        self.row["collectives"], self.row["collectives_why"], waits = recorded.answer()
        self.our_cpu = recorded.cpu
        for pid, question in stacks.items():
            why, threads = question.answer()
            row = self.seen.get(pid, self.row)
            row["threads"], row["forked"] = threads, question.find_fork()
            if pid == self.pid:
                row["stacks"] = why
                add_waits(threads, waits, pid, connections)
            else:
                threads[:1] = map(without_parent, threads[:1])
            self.find_source(row, pid)

    def find_source(self, row: "Row", pid: int) -> None:
        """Add the line of each thread's own code, and whether the main thread's loop only waits."""
        folder = link_of("/proc/%d/cwd" % pid)
        for thread in row["threads"]:
            own_frame = waiting_loop.own_frame(thread["frames"], self.site)
            if own_frame is None:
                continue
            path, line, function = own_frame
            lines = waiting_loop.source_of(path, folder)
            has_line = 0 < line <= len(lines)
            text = lines[line - 1].strip()[: waiting_loop.TEXT] if has_line else ""
            thread["source"] = [path, line, function, text]
            if thread["main"]:
                row["source"] = thread["source"]
                row["waits_in_loop"] = has_line and waiting_loop.waits_in_loop(lines, line)

    def measure(self, alive: "Processes") -> None:
        pids = [self.pid] + sorted(rank_wrapper.find_descendant_pids(self.pid, alive))
        self.seconds = time.monotonic() - self.began
        self.after = self.read_cpu_use(pids)

    def result(self, alive: "Processes") -> "Row":
        """Return the rank's row, with the CPU use over the interval and its child processes."""
        (cpu, main), (cpu_after, main_after) = self.before, self.after
        row = dict(self.row)
        row["cpu"] = self.share(sum(cpu_after.values()) - sum(cpu.values()) - self.our_cpu)
        row["main_cpu"] = self.share(main_after - main)
        row["threads"] = shorten_stacks(row["threads"])
        children = [self.describe_child(pid, alive, cpu, cpu_after) for pid in self.below]
        children.sort(key=lambda child: (not child["exited"], not child["threads"], child["pid"]))
        row["children"] = children[:CHILDREN]
        return row

    def describe_child(
        self, pid: int, alive: "Processes", before: "dict[int, float]", after: "dict[int, float]"
    ) -> "Row":
        state, parent = alive.get(pid, ("X", 0))[:2]
        kernel_view = self.seen.get(pid, {})
        name = read_text("/proc/%d/comm" % pid).strip()[: process_state.NAME]
        row = {"pid": pid, "parent": parent, "name": name, "exited": state in "ZX"}
        row["cpu"] = self.share(after.get(pid, 0.0) - before.get(pid, 0.0))
        threads = shorten_stacks(kernel_view.get("threads", []))[:CHILD_THREADS]
        return dict(kernel_view, **row, state=state, threads=threads)

    def share(self, seconds: float) -> float:
        return round(max(0.0, seconds / max(self.seconds, 0.001)), 3)


def without_parent(thread: "Row") -> "Row":
    """Cut the parent's frames off the stack of a process forked by multiprocessing."""
    frames = thread["frames"]
    ends = [i for i, frame in enumerate(frames) if frame[0].endswith(FORKS)]
    return dict(thread, frames=frames[: ends[0]] if ends else frames)


def shorten_stacks(threads: "list[Row]") -> "list[Row]":
    return [dict(thread, frames=thread["frames"][:FRAMES]) for thread in threads]


def is_place(innermost: "list[list[Any]]", place: "list[Any]") -> bool:
    path, line, function = place
    cut = [path[: process_state.PATH], line, function[: process_state.NAME]]
    return innermost == [cut]


def set_blocked_on(row: "Row", pid: int, connections: "Connections") -> None:
    call, channel = row["syscall"], row["wchan"]
    waits = process_state.blocked_on(pid, call, channel, connections.peers)
    row["blocked_on"] = None if row["state"] in "RX" else waits


def add_waits(
    threads: "list[Row]", waits: "list[Row]", pid: int, connections: "Connections"
) -> None:
    """Add to each thread what its rank reports about it, if it did not go on since its stack was
    written, and what it does in the kernel."""
    reports = {row.get("id"): row for row in waits}
    for thread in threads:
        report = reports.get(thread["id"], {})
        thread["name"] = report.get("name") or thread["name"]
        place = report.pop("place", None)
        thread["waits"] = report if place and is_place(thread["frames"][:1], place) else {}
        if report.get("native") and not thread["main"]:
            task = "/proc/%d/task/%d" % (pid, report["native"])
            thread.update(process_state.kernel_state(task))
            set_blocked_on(thread, pid, connections)
