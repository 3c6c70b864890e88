"""Both ends of the process that copies checkpoints (copy_worker.py): the guardian of the run starts
it, and the supervisor passes messages on between it and the hub.

A process of its own at the lowest priority: hashing and TLS would delay the supervisor. It ends
with the supervisor, also if there is no guardian any more.
"""

import importlib
import json
import mmap
import os
import select
import signal
import socket
import time

from ipexctl.common.copy_messages import CopierEnded, CopierEvent
from ipexctl.common.run_events import CopierReported
from ipexctl.common.run_orders import StartOrder
from ipexctl.remote.own_process import close_files, start_thread
from ipexctl.remote.rank import rank_wrapper
from ipexctl.remote.run_files import run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable
    from typing import Any

    from ipexctl.common.copy_messages import CopyOrder
    from ipexctl.common.message import Message

LIMIT = 1 << 18  # bytes of a message
WORKER = "ipexctl-copy"  # as `ps -o comm` shows it
BEGINS = 5.0  # seconds that ranks wait for it, where a disk does not answer
PAUSE = 2.0  # seconds before a killed worker is replaced
MEMORY = 16 << 20  # bytes for what a worker notes for the next one; only used ones take memory
NEVER = float("inf")
LAST_TURNS = 100  # of 10 ms, for a killed worker to be gone


class CopyProcess:
    """The worker of a run with --checkpoints, as its guardian has it."""

    def __init__(self, order: StartOrder, run_folder: str) -> None:
        """Make the sockets; called before the supervisor is forked."""
        self.order = order
        self.folder = os.path.join(
            run_folder, run_folders.COPIES, os.path.basename(order.host) or "-"
        )
        self.ours = self.theirs = None  # type: socket.socket | None  # of supervisor and worker
        if order.checkpoints:
            self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.memory = None  # type: mmap.mmap | None
        self.pid = 0  # of the worker, 0 while there is none
        self.due = NEVER  # when it is started

    def supervisors_end(self) -> "socket.socket | None":
        """Return the socket to the worker, None if the run copies nothing; in the supervisor."""
        if self.theirs is not None:
            self.theirs.close()
        return self.ours

    def begin(self) -> None:
        """Start the worker, once the supervisor has its end; no other process may keep it."""
        if self.ours is not None:
            self.ours.close()
            self.start()

    def start(self) -> None:
        """Fork the worker; try again after a pause if this host has no room for it now."""
        self.due = NEVER
        try:
            self.memory = self.memory or mmap.mmap(-1, MEMORY)  # shared with all workers
            self.pid = os.fork()
        except OSError:
            self.due = time.monotonic() + PAUSE
            return
        if self.pid == 0:
            try:
                self.work()
            finally:
                os._exit(1)

    def work(self) -> None:
        """Be the worker, without PDEATHSIG: copying goes on if the guardian is killed."""
        assert self.theirs is not None
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        rank_wrapper.set_name(WORKER)
        close_files(self.theirs.fileno())
        start_thread(end_with_supervisor, self.theirs)
        # by name: hosts get it only for such a run (run/prepare_hosts.py)
        copy_worker = importlib.import_module("ipexctl.remote.checkpoints.copy_worker")
        copy_worker.work(self.order, self.folder, self.theirs, self.memory)

    def wait_time(self, longest: float) -> float:
        """Return the seconds until `start_if_due` has to be called."""
        return min(longest, max(0.0, self.due - time.monotonic()))

    def start_if_due(self) -> None:
        if time.monotonic() >= self.due:
            self.start()

    def take_end(self, pid: int, status: int) -> None:
        """Note that a child of the guardian has ended. A worker that was killed, for example for
        lack of memory, is replaced after a pause."""
        if pid != self.pid:
            return
        self.pid = 0
        if os.WIFSIGNALED(status):
            self.due = time.monotonic() + PAUSE
        elif self.theirs is not None:
            self.theirs.close()  # the supervisor reports that

    def end(self) -> None:
        """Kill the worker of a supervisor that has ended, also one that is stopped."""
        if not self.pid:
            return
        os.kill(self.pid, signal.SIGKILL)
        for _ in range(LAST_TURNS):  # one that waits for a disk ends later
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return
            time.sleep(0.01)


def end_with_supervisor(link: "socket.socket") -> None:
    """End this process, whatever it does, when the other end of the socket is closed."""
    hangup = select.poll()
    hangup.register(link, 0)
    hangup.poll()
    os._exit(0)


def wait_for_copier(link: "socket.socket") -> None:
    """Wait for its first message: which files are older than the ranks is known then."""
    select.select([link], [], [], BEGINS)


def end_copier(link: "socket.socket | None") -> None:
    """End the worker: what it says after the end of the run here would be lost."""
    if link is not None:
        try:
            link.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended


def send_packet(link: "socket.socket", message: "Message", flags: int = 0) -> None:
    """Send a message as one packet, so that a killed process cannot leave half of one."""
    link.send(json.dumps(message.document()).encode("ascii"), flags)


def receive_packet(link: "socket.socket") -> "dict[str, Any] | None":
    """Return the next message, None at the end."""
    data = link.recv(LIMIT)
    return json.loads(data.decode("ascii")) if data else None


def forward_copier_events(
    link: "socket.socket",
    report: "Callable[[CopierReported], object]",
    is_over: "Callable[[], bool]",
) -> None:
    """Forward the copier's messages to the hub, until `is_over()`."""

    def loop() -> None:
        while True:
            message = receive_packet(link)
            if message is None:
                if not is_over():
                    report(CopierReported(CopierEnded()))
                return
            report(CopierReported(CopierEvent.read(message)))

    start_thread(loop)


def tell_copier(link: "socket.socket | None", message: "CopyOrder") -> None:
    """Send a message, or drop it if the buffer is full: the supervisor never waits."""
    if link is None:
        return  # no checkpoints are copied
    try:
        send_packet(link, message, socket.MSG_DONTWAIT)
    except OSError:
        pass  # it has ended
