"""The supervisor's end of the process that copies checkpoints (copy_worker.py).

A process of its own at the lowest priority: hashing and TLS would delay the supervisor. It is
forked before the supervisor has threads, and ends with it.
"""

import importlib
import json
import os
import select
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
RESTARTER, WORKER = "ipexctl-copies", "ipexctl-copy"  # as `ps -o comm` shows them
BEGINS = 5.0  # seconds that ranks wait for it, where a disk does not answer
PAUSE = 2.0  # seconds before a killed worker is replaced


def start_checkpoint_copier(order: StartOrder, run_folder: str) -> "socket.socket | None":
    """Start the process; return the socket to it, None if the run copies no checkpoints."""
    if not order.checkpoints:
        return None
    folder = os.path.join(run_folder, run_folders.COPIES, os.path.basename(order.host) or "-")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    if os.fork() == 0:
        try:
            rank_wrapper.die_with_parent(parent)
            rank_wrapper.set_name(RESTARTER)
            close_files(theirs.fileno())
            keep_copier_running(order, folder, theirs)
        finally:
            os._exit(1)
    theirs.close()
    return ours


def wait_for_copier(link: "socket.socket") -> None:
    """Wait for its first message: which files are older than the ranks is known then."""
    select.select([link], [], [], BEGINS)


def keep_copier_running(order: StartOrder, folder: str, link: "socket.socket") -> None:
    """Start the worker, and again each time it is killed, for example for lack of memory."""
    # by name: hosts get it only for such a run (run/prepare_hosts.py)
    copy_worker = importlib.import_module("ipexctl.remote.checkpoints.copy_worker")
    parent = os.getpid()
    worker = copy_worker.Worker(order, folder, link)
    while True:
        pid = os.fork()
        if pid == 0:
            try:
                rank_wrapper.die_with_parent(parent)
                rank_wrapper.set_name(WORKER)
                worker.work()
            finally:
                os._exit(1)
        if not os.WIFSIGNALED(os.waitpid(pid, 0)[1]):
            return
        time.sleep(PAUSE)


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
