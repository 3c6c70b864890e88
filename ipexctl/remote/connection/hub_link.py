"""Link the supervisors of a run: the first host's is the hub, the others are spokes.

A cut connection is not a lost host: messages are numbered and acknowledged, and sent again after
a reconnect, so that each is taken once and in order (connection/link_stream.py). Who connects has
the key of the run (connection/tls_channel.py), and its greeting says which host it is.

`take` is called in the link's thread: it has to return soon, as no beat is sent meanwhile. When it
raises an exception, that goes to stderr, and the message counts as taken.
"""

import errno
import os
import selectors
import socket
import time

from ipexctl.remote.connection import link_stream
from ipexctl.remote.connection.link_thread import PeerLink
from ipexctl.remote.connection.tls_channel import Closed, TlsChannel

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

RETRY, SLOWEST_RETRY = 0.2, 2.0
ACCEPTED = 32  # connections taken before other work
FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class HubListener(PeerLink):
    """The hub's end. `renews`: a host whose process has ended may connect with a new process."""

    def __init__(
        self,
        names: "Iterable[str]",
        keys: "dict[str, str]",
        take: "Callable[[str, Any], object]",
        renews: bool = False,
    ) -> None:
        PeerLink.__init__(self, names, keys, True, lambda end, message: take(end.name, message))
        self.renews = renews
        self.most_unfinished = 2 * len(self.ends) + 16

    def listen(self, address: str, ports: "Sequence[int] | None" = None) -> int:
        """Return the port, one of `ports` (lowest, highest). Raise OSError if none is free."""
        for port in range(ports[0], ports[1] + 1) if ports else [0]:
            try:
                self.listener = open_hub_listener(address, port)
                break
            except OSError as e:
                if e.errno != errno.EADDRINUSE or not ports or port == ports[1]:
                    raise
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.start()
        taken: int = self.listener.getsockname()[1]
        return taken

    def send(self, name: str, message: object) -> None:
        if name in self.ends:
            self.put(self.ends[name], message)

    def connected(self) -> "set[str]":
        return {name for name, end in self.ends.items() if end.channel is not None and not end.lost}

    def address(self, name: str) -> str:
        """Return the address from which a host is connected, "" if it is not."""
        channel = self.ends[name].channel
        try:
            return channel.sock.getpeername()[0] if channel is not None else ""
        except OSError:
            return ""

    def flush(self, seconds: float) -> bool:
        """Wait until all connected hosts have acknowledged everything; return if they did."""
        ends = self.ends.values()
        return self.wait_until(
            lambda: all(end.channel is None or not end.stream.pending() for end in ends), seconds
        )

    # -- the link's thread --

    def accept(self, _: int) -> None:
        """Accept waiting connections; when descriptors run out, drop the oldest unfinished one."""
        for _ in range(ACCEPTED):
            try:
                sock, _ = self.listener.accept()
            except OSError as e:
                if e.errno in FULL and self.unfinished:
                    self.drop(next(iter(self.unfinished)))
                elif e.errno in FULL:
                    time.sleep(0.05)  # the next attempt is at once
                return
            try:
                self.add(TlsChannel(sock, self.context, True))
            except OSError:  # the connection has ended already
                sock.close()
            if len(self.unfinished) > self.most_unfinished:
                self.drop(next(iter(self.unfinished)))

    def welcome(self, channel: "TlsChannel", number: int, token: bytes, name: str) -> None:
        """Check that the greeting names a host of the run, answer it, and use the connection."""
        end = self.ends.get(name)
        if end is None or end.lost:
            raise Closed("%s is not a host of this run" % name)
        channel.end = end
        if self.renews and end.stream.is_another(token):
            with self.changed:  # messages for the previous process are not for this one
                end.stream = link_stream.Stream(os.urandom(link_stream.TOKEN))
        channel.tls.write(end.stream.hello(""))
        PeerLink.welcome(self, channel, number, token, name)


class Spoke(PeerLink):
    """A spoke's end of the link. `renews`: a new process may take the place of the hub's."""

    def __init__(
        self,
        name: str,
        hub: str,
        keys: "dict[str, str]",
        take: "Callable[[Any], object]",
        renews: bool = False,
    ) -> None:
        PeerLink.__init__(self, [hub], keys, False, lambda end, message: take(message))
        self.name = name
        self.hub = self.ends[hub]
        self.renews = renews
        self.tries = 0
        self.retry = RETRY
        self.next_try: "float | None" = None  # None: connecting, or connected

    def connect(self, address: str, port: int) -> None:
        self.place = address, port
        self.next_try = time.monotonic()
        self.start()

    def send(self, message: object) -> None:
        self.put(self.hub, message)

    def was_connected(self) -> bool:
        """Return whether this spoke has ever been connected."""
        return self.hub.stream.other is not None

    def connected(self) -> bool:
        return self.hub.channel is not None

    def flush(self, seconds: float) -> bool:
        """Wait until the hub has acknowledged everything; return if it did."""
        return self.wait_until(lambda: not self.hub.stream.pending(), seconds)

    # -- the link's thread --

    def next_due(self) -> float:
        return self.next_beat if self.next_try is None else min(self.next_beat, self.next_try)

    def keep_time(self, now: float) -> None:
        """Send due beats, and connect again when the next try is due."""
        PeerLink.keep_time(self, now)
        if self.hub.lost:
            self.next_try = None
        elif self.next_try is not None and self.next_try <= now:
            self.next_try = None
            try:
                self.begin()
            except (OSError, ValueError, OverflowError) as e:  # the latter two: an invalid address
                if isinstance(e, ConnectionRefusedError):
                    self.note_refusal()
                self.try_later()

    def begin(self) -> None:
        """Connect to the hub; if it has two addresses, try each in turn."""
        address, port = self.place
        places = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, place = places[self.tries % len(places)]
        self.tries += 1
        sock = socket.socket(family, kind, protocol)
        try:
            channel = TlsChannel(sock, self.context, False)
            error_code = sock.connect_ex(place)
            if error_code not in (0, errno.EINPROGRESS):
                raise OSError(error_code, os.strerror(error_code))
        except OSError:
            sock.close()
            raise
        channel.connecting = True
        self.add(channel)

    def note_end(self, channel: "TlsChannel", error: Exception) -> None:
        PeerLink.note_end(self, channel, error)
        if channel.connecting and isinstance(error, ConnectionRefusedError):
            self.note_refusal()

    def note_refusal(self) -> None:
        """Note the end of the hub's process: it reset the connection, and nothing listens there."""
        if self.hub.reset and self.hub.vanished is None:
            self.hub.vanished = time.monotonic()

    def try_later(self) -> None:
        self.next_try = time.monotonic() + self.retry
        self.retry = min(self.retry * 1.5, SLOWEST_RETRY)

    def greet(self, channel: "TlsChannel") -> None:
        if self.hub.lost:
            raise Closed("too many messages were not acknowledged")
        channel.end = self.hub
        channel.tls.write(self.hub.stream.hello(self.name))

    def welcome(self, channel: "TlsChannel", number: int, token: bytes, name: str) -> None:
        PeerLink.welcome(self, channel, number, token, name)
        self.retry = RETRY

    def drop(self, channel: "TlsChannel") -> None:
        greeted = channel.end is not None and channel not in self.unfinished
        PeerLink.drop(self, channel)
        if self.renews and channel.shaken and not greeted and self.was_connected():
            with self.changed:  # a new process knows nothing of the previous connection
                self.hub.stream = link_stream.Stream(os.urandom(link_stream.TOKEN))
        self.try_later()


def open_hub_listener(address: str, port: int) -> "socket.socket":
    """Return a listening socket at the address. Raise OSError."""
    family, kind, protocol, _, place = socket.getaddrinfo(
        address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener
