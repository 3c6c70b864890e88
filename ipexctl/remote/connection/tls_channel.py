"""A connection between two hosts of a run: mutual TLS (peer_tls.py) over a non-blocking socket."""

import os
import socket
import time

from ipexctl.remote.connection import link_stream

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    import ssl
    from collections.abc import Iterator

    from ipexctl.remote.connection.link_thread import End

CHUNK = 1 << 16
PATIENCE = 5.0  # seconds for connecting, the handshake and the greeting together


class Closed(Exception):
    """The connection has ended; the message says why. OSErrors of socket and TLS mean the same."""


class Vanished(Closed):
    """The other end's kernel closed the connection: a live process says goodbye first."""


class TlsChannel:
    """A connection. All methods are for the thread of the link."""

    def __init__(self, sock: "socket.socket", ssl_context: "ssl.SSLContext", server: bool) -> None:
        import ssl

        self.no_data = ssl.SSLWantReadError
        self.sock = sock
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.tls = ssl_context.wrap_bio(self.incoming, self.outgoing, server_side=server)
        self.decoder = link_stream.RecordDecoder()
        self.unsent = b""  # what the kernel has not accepted yet
        self.deadline = time.monotonic() + PATIENCE
        self.connecting = False
        self.shaken = False
        self.closed = False
        self.end: "End | None" = None  # set by the link: the host at the other end, once known
        self.last_read = 0.0
        self.events = 0

    def check_connected(self) -> None:
        """Called when the socket became writable: raise OSError if it is not connected."""
        error_code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error_code:
            raise OSError(error_code, os.strerror(error_code))
        self.connecting = False

    def fill(self) -> bool:
        """Read once from the socket; return whether something came."""
        try:
            data = self.sock.recv(CHUNK)
        except (BlockingIOError, InterruptedError):
            return False
        if not data:
            raise Vanished("the other end closed the connection")
        self.incoming.write(data)
        return True

    def shake(self) -> bool:
        """Continue the handshake; return whether it is complete."""
        try:
            self.tls.do_handshake()
        except self.no_data:
            return False
        self.shaken = True
        return True

    def frames(self) -> "Iterator[link_stream.Frame]":
        """Yield the frames that have been received completely. Raise Closed."""
        while True:
            try:
                data = self.tls.read(CHUNK)
            except self.no_data:
                return
            if not data:
                raise Closed("the other end closed the connection")
            for frame in self.decoder.feed(data):
                yield frame
            if not self.incoming.pending and not self.tls.pending():
                return  # another read, only to get SSLWantRead, costs ten times as much

    def flush(self) -> None:
        """Write as much to the kernel as it accepts."""
        if not self.unsent and not self.outgoing.pending:
            return
        data = self.unsent + self.outgoing.read()
        try:
            size = self.sock.send(data)
        except (BlockingIOError, InterruptedError):
            size = 0
        except ConnectionResetError as e:  # the other end's goodbye may still be readable
            raise Closed(str(e)) from None
        self.unsent = data[size:]

    def close(self) -> None:
        """Say goodbye, as far as the kernel accepts it, without waiting for the other end's."""
        if not self.closed and self.shaken:
            for step in (self.tls.unwrap, self.flush):
                try:
                    step()
                except (OSError, Closed):
                    pass
        self.closed = True
        self.sock.close()
