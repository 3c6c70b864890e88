"""The agents that watch a run on this host, each at a socket. The run never waits for them.

Decisions and output are in files, which they read on their own (run_watch.py). Over the socket
they learn that there is more to read, and the current state.
"""

import queue

from ipexctl.common import frames, run_events
from ipexctl.common.supervisor_messages import EventSent, SupervisorMessage
from ipexctl.common.waiting import wait_until
from ipexctl.common.watch_orders import WatchOrder
from ipexctl.remote.own_process import start_thread

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    import socket
    from collections.abc import Callable

    from ipexctl.common.frames import Frames

UNREAD = 256  # events for one watcher; the next ones are dropped
LAST_WORDS = 10.0  # seconds for all of them to read the last event


class Watchers:
    def __init__(self, hear: "Callable[[Watcher, WatchOrder | None], object]") -> None:
        """Call hear(watcher, order) with each message, and with None at the end."""
        self.hear = hear
        self.all = []  # type: list[Watcher]

    def add(self, watcher: "Watcher") -> None:
        self.all = self.all + [watcher]
        start_thread(watcher.write)
        start_thread(self.listen, watcher)

    def add_socket(self, link: "socket.socket") -> None:
        link.settimeout(None)
        watcher = Watcher(frames.of_socket(link))
        watcher.put(EventSent(run_events.Pong()))
        self.add(watcher)

    def listen(self, watcher: "Watcher") -> None:
        while True:
            frame = watcher.frames.read()
            if frame is None:
                break
            try:
                order = WatchOrder.read(frame[0])
            except (TypeError, ValueError):  # of another program
                break
            self.hear(watcher, order)
        self.all = [other for other in self.all if other is not watcher]
        self.hear(watcher, None)

    def tell(self, message: SupervisorMessage) -> None:
        for watcher in self.all:
            watcher.put(message)

    def tell_last(self, message: SupervisorMessage) -> None:
        """Send the last event; return when all watchers have read it, or stopped reading."""
        recipients = self.all
        for watcher in recipients:
            watcher.queue.put(message)

        def have_it() -> bool:
            return not any(each.queue.unfinished_tasks and each in self.all for each in recipients)

        wait_until(have_it, LAST_WORDS, 0.01)


class Watcher:
    def __init__(self, frames: "Frames") -> None:
        self.frames = frames
        self.queue = queue.Queue()  # type: queue.Queue[SupervisorMessage]

    def put(self, message: SupervisorMessage) -> None:
        if self.queue.qsize() < UNREAD:  # a slow watcher loses events; decisions are in the journal
            self.queue.put(message)

    def write(self) -> None:
        while True:
            message = self.queue.get()
            try:
                self.frames.write(message.document())
            except (OSError, ValueError):
                pass  # the watcher has gone: `listen` notices, too
            self.queue.task_done()
