"""The thread that does all reading and writing of a hub or a spoke (hub_link.py).

It touches no disk, and sends a beat on every connection each second.
"""

import os
import selectors
import socket
import threading
import time

from ipexctl.remote.connection import link_stream, peer_tls
from ipexctl.remote.connection.link_stream import BEAT, HELLO, MESSAGE
from ipexctl.remote.connection.tls_channel import Closed, Vanished
from ipexctl.remote.own_process import start_thread

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ipexctl.remote.connection.tls_channel import TlsChannel

BEATS = 1.0  # seconds from one to the next
SILENCE = 5.0  # seconds without data after which a connection is closed
BACKLOG = 1 << 18  # bytes that are encrypted ahead of what the kernel takes


class End:
    """A host at the other end of the link."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stream = link_stream.Stream(os.urandom(link_stream.TOKEN))
        self.heard = time.monotonic()
        self.channel: "TlsChannel | None" = None  # the connection in use
        self.reset = False  # the last connection, not by this end
        # since when its process has ended, according to its kernel
        self.vanished: "float | None" = None
        self.lost = False


class PeerLink:
    """The common part of hub and spoke. `changed` guards the ends and the queues.

    deliver(end, message) is called with each message, in the link's thread.
    """

    def __init__(
        self,
        names: "Iterable[str]",
        keys: "dict[str, str]",
        server: bool,
        deliver: "Callable[[End, Any], object]",
    ) -> None:
        self.deliver = deliver
        self.context = peer_tls.make_tls_context(keys, server)
        self.ends = {name: End(name) for name in names}
        self.changed = threading.Condition()
        self.queued: "set[End]" = set()  # ends to look at: something to send, or lost
        # channels whose end is not known yet, from the oldest on
        self.unfinished: "dict[TlsChannel, bool]" = {}
        self.closing = False
        self.thread: "threading.Thread | None" = None
        self.next_beat = time.monotonic()
        self.latest = 0.0  # seconds by which a beat was late
        self.selector = selectors.DefaultSelector()
        self.wake_reader, self.waker = socket.socketpair()
        self.wake_reader.setblocking(False)
        self.waker.setblocking(False)
        self.selector.register(self.wake_reader, selectors.EVENT_READ, self.drain_wake_pipe)

    # -- any thread --

    def heard(self, name: str) -> float:
        return self.ends[name].heard

    def absent(self, name: str) -> float:
        """Return for how many seconds its process has been gone without another connection. 0: it
        lives, or that is not known: a path that is cut may come back."""
        since = self.ends[name].vanished
        return 0.0 if since is None else time.monotonic() - since

    def put(self, end: "End", message: object) -> None:
        """Queue a message for a host; give the host up if too many wait already."""
        body = link_stream.encode_message(message)
        with self.changed:
            if end.lost or self.closing:
                return
            if end.stream.put(body):
                self.queue_end(end)
            else:
                self.give_up_end(end)

    def give_up_end(self, end: "End") -> None:
        """Send no more to a host, and ignore what it sends. The caller holds the lock."""
        end.lost = True
        end.stream.clear()
        self.queue_end(end)
        self.changed.notify_all()

    def queue_end(self, end: "End") -> None:
        if not self.queued:
            self.wake()
        self.queued.add(end)

    def wake(self) -> None:
        try:
            self.waker.send(b"\0")
        except OSError:
            pass  # the buffer is full, so the thread wakes up anyway; or it is closed

    def longest_freeze(self) -> float:
        """Return the longest time in seconds in which no beat was sent because this process or its
        host was frozen: to the other ends, it was lost."""
        late = 0.0 if self.thread is None else time.monotonic() - self.next_beat
        return max(self.latest, late)

    def wait_until(self, condition: "Callable[[], bool]", seconds: float) -> bool:
        with self.changed:
            self.changed.wait_for(lambda: self.closing or condition(), seconds)
            return condition()

    def close(self) -> None:
        """Stop the link's thread, or close all connections if it was never started."""
        with self.changed:
            self.closing = True
            self.changed.notify_all()
            self.wake()
            thread = self.thread
        if thread is None:
            self.close_all()
        elif thread is not threading.current_thread():
            thread.join(SILENCE)

    # -- the link's thread --

    def start(self) -> None:
        self.next_beat = time.monotonic() + BEATS
        self.thread = start_thread(self.run)

    def run(self) -> None:
        """Handle sockets, queued messages and beats until the link is closed."""
        try:
            while not self.closing:
                wait = self.next_due() - time.monotonic()
                for key, events in self.selector.select(max(0.0, wait)):
                    key.data(events)
                self.serve_queued()
                self.keep_time(time.monotonic())
        finally:
            self.close_all()

    def close_all(self) -> None:
        """Close all sockets and wake up the threads that wait for the link."""
        for end in self.ends.values():
            if end.channel is not None:
                end.channel.close()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self.selector.close()
        self.waker.close()
        with self.changed:
            for end in self.ends.values():
                end.channel = None
            self.changed.notify_all()

    def next_due(self) -> float:
        return self.next_beat

    def drain_wake_pipe(self, _: int) -> None:
        try:
            self.wake_reader.recv(4096)
        except OSError:
            pass

    def serve_queued(self) -> None:
        with self.changed:
            queued, self.queued = self.queued, set()
        for end in queued:
            if end.channel is not None:
                self.call_guarded(end.channel, self.write)

    def keep_time(self, now: float) -> None:
        """Once a beat is due, drop connections that took too long and send a beat on the others."""
        if now < self.next_beat:
            return
        self.latest = max(self.latest, now - self.next_beat)
        self.next_beat = now + BEATS
        for channel in [channel for channel in self.unfinished if channel.deadline < now]:
            self.drop(channel)
        for end in self.ends.values():
            if end.channel is not None:
                self.call_guarded(end.channel, self.beat)

    def beat(self, channel: "TlsChannel") -> None:
        if time.monotonic() - channel.last_read > SILENCE:
            raise Closed("no answer in %g s" % SILENCE)
        if not channel.unsent:
            assert channel.end is not None
            channel.tls.write(channel.end.stream.beat())
            self.write(channel)

    # -- one connection --

    def add(self, channel: "TlsChannel") -> None:
        self.unfinished[channel] = True
        channel.events = selectors.EVENT_WRITE if channel.connecting else selectors.EVENT_READ
        self.selector.register(
            channel.sock, channel.events, lambda events: self.serve(channel, events)
        )

    def serve(self, channel: "TlsChannel", events: int) -> None:
        if events & selectors.EVENT_READ:
            self.call_guarded(channel, self.read)
        else:
            self.call_guarded(channel, self.write)

    def call_guarded(self, channel: "TlsChannel", work: "Callable[[TlsChannel], object]") -> None:
        """Call `work` for a connection; an exception ends only this connection."""
        if channel.closed:
            return
        try:
            work(channel)
        except (OSError, Closed, link_stream.BadRecord) as e:
            self.note_end(channel, e)
            self.drop(channel)
        except Exception:
            print_traceback()
            self.drop(channel)

    def note_end(self, channel: "TlsChannel", error: Exception) -> None:
        end = channel.end
        if end is not None and end.channel is channel:
            end.reset = isinstance(error, ConnectionResetError)
            if isinstance(error, Vanished):
                end.vanished = time.monotonic()

    def read(self, channel: "TlsChannel") -> None:
        """Read from a connection, finish its handshake, and handle the frames that are complete."""
        if not channel.fill():
            return
        self.note_contact(channel)
        if not channel.shaken and channel.shake():
            self.greet(channel)
        if channel.shaken:
            messages = False
            for kind, number, body in channel.frames():
                messages = self.handle_frame(channel, kind, number, body) or messages
            if messages:
                assert channel.end is not None  # the greeting came first
                channel.tls.write(channel.end.stream.beat())
        self.write(channel)

    def note_contact(self, channel: "TlsChannel") -> None:
        end = channel.end
        if end is not None and end.channel is channel and not end.lost:
            end.heard = channel.last_read = time.monotonic()

    def greet(self, channel: "TlsChannel") -> None:
        """Called after the handshake. The connecting end greets first."""

    def handle_frame(self, channel: "TlsChannel", kind: int, number: int, body: bytes) -> bool:
        """Handle a frame; return whether it was a message."""
        if kind == HELLO and channel in self.unfinished:
            token, name = body[: link_stream.TOKEN], body[link_stream.TOKEN :]
            self.welcome(channel, number, token, name.decode("utf-8", "replace"))
        elif channel in self.unfinished or kind == HELLO:
            raise link_stream.BadRecord("a frame of kind %d too early or too late" % kind)
        end = channel.end
        assert end is not None
        with self.changed:
            if end.channel is not channel or end.lost or self.closing:
                raise Closed("this connection is not used any more")
            if kind == BEAT:
                end.stream.take_acknowledgement(number)
                if not end.stream.pending():
                    self.changed.notify_all()
        if kind != MESSAGE:
            return False
        if end.stream.is_new(number):
            try:
                self.deliver(end, link_stream.decode_message(body))
            except Exception:  # the message counts as taken: sending it again would not help
                print_traceback()
        return True

    def welcome(self, channel: "TlsChannel", number: int, token: bytes, name: str) -> None:
        """Begin to use a connection whose other end has said hello."""
        end = channel.end
        assert end is not None
        end.stream.check(token)
        if end.channel is not None:
            self.drop(end.channel)
        with self.changed:
            end.stream.resume(number, token)
            end.channel = channel
            end.vanished = None
            self.changed.notify_all()
        del self.unfinished[channel]
        self.note_contact(channel)

    def write(self, channel: "TlsChannel") -> None:
        """Send queued messages, as many as the kernel accepts."""
        if channel.connecting:
            channel.check_connected()
            channel.shake()
        end = channel.end
        channel.flush()
        if end is not None and end.channel is channel:
            if end.lost:
                raise Closed("too many messages were not acknowledged")
            while end.stream.waiting and not channel.unsent:
                with self.changed:
                    data = end.stream.next_bytes(BACKLOG)
                if data:  # empty if the host was forgotten meanwhile
                    channel.tls.write(data)
                    channel.flush()
        self.watch(channel)

    def watch(self, channel: "TlsChannel") -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.unsent else 0)
        if events != channel.events:
            data = self.selector.get_key(channel.sock).data
            self.selector.modify(channel.sock, events, data)
            channel.events = events

    def drop(self, channel: "TlsChannel") -> None:
        """Close a connection; the messages to its host stay queued."""
        self.unfinished.pop(channel, None)
        self.selector.unregister(channel.sock)
        channel.close()
        end = channel.end
        if end is not None and end.channel is channel:
            with self.changed:
                end.channel = None
                self.changed.notify_all()


def print_traceback() -> None:
    """Print without sys.excepthook: the agent's hook, inherited by the fork, ends the process."""
    import traceback

    traceback.print_exc()
