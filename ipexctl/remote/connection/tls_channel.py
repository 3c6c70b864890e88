"""One connection between two hosts of a run: mutual TLS (peer_tls.py) over a socket that never
blocks."""

import errno
import os
import socket
import time

from ipexctl.remote.connection import link_stream, peer_tls

CHUNK = 1 << 16
PATIENCE = 5.0  # seconds for connecting, the handshake and the greeting together


class Closed(Exception):
    """The connection is over; says why."""


class Vanished(Closed):
    """The other end's kernel closed it: a process that lives says goodbye first."""


class Reset(Closed):
    """The other end's kernel did, or something on the way."""


class Refused(Closed):
    """The other end is not one of this run, or does not recognize this one."""


class Channel:
    """All of its methods are for the one thread of the link."""

    def __init__(self, sock, ssl_context, server):
        import ssl

        self.ssl = ssl
        self.sock = sock
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.tls = ssl_context.wrap_bio(self.incoming, self.outgoing, server_side=server)
        self.decoder = link_stream.Decoder()
        self.unsent = b""  # what the kernel did not take yet
        self.deadline = time.monotonic() + PATIENCE
        self.connecting = False
        self.shaken = False
        self.refused = False
        self.closed = False
        self.end = None  # set by the link: who it is, once known
        self.last_read = self.last_write = 0.0
        self.events = 0

    def check_connected(self):
        """The socket became writable: is it connected?"""
        failed = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed == errno.ECONNREFUSED:
            raise Reset(in_words(ConnectionRefusedError(failed, os.strerror(failed))))
        if failed:
            raise Closed(in_words(OSError(failed, os.strerror(failed))))
        self.connecting = False

    def fill(self):
        """Reads once from the socket. Did something come?"""
        try:
            data = self.sock.recv(CHUNK)
        except (BlockingIOError, InterruptedError):
            return False
        except ConnectionResetError as e:
            raise Reset(in_words(e)) from None
        except OSError as e:
            raise Closed(in_words(e)) from None
        if not data:
            raise Vanished("the other end closed the connection")
        if not self.refused:
            self.incoming.write(data)
        return True

    def shake(self):
        """Is the handshake done?"""
        try:
            self.tls.do_handshake()
        except self.ssl.SSLWantReadError:
            return False
        except self.ssl.SSLError as e:
            raise Refused(peer_tls.in_words(e)) from None
        self.shaken = True
        return True

    def frames(self):
        while True:
            try:
                data = self.tls.read(CHUNK)
            except self.ssl.SSLWantReadError:
                return
            except self.ssl.SSLZeroReturnError:
                raise Closed("the other end closed the connection") from None
            except self.ssl.SSLError as e:
                raise Closed(peer_tls.in_words(e)) from None
            if not data:
                raise Closed("the other end closed the connection")
            for found in self.decoder.feed(data):
                yield found
            if not self.incoming.pending and not self.tls.pending():
                return  # to read and to be told so costs ten times as much

    def write(self, data):
        try:
            self.tls.write(data)
            self.last_write = time.monotonic()
        except self.ssl.SSLError as e:
            raise Closed(peer_tls.in_words(e)) from None

    def flush(self):
        """To the kernel, as far as it takes it."""
        if not self.unsent and not self.outgoing.pending:
            return
        data = self.unsent + self.outgoing.read()
        try:
            sent = self.sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as e:
            raise Closed(in_words(e)) from None
        self.unsent = data[sent:]

    def refuse(self):
        """Says so, and waits for the other end to close: to close first could destroy the word."""
        self.refused = True
        self.deadline = time.monotonic() + PATIENCE
        try:
            if self.shaken:
                self.write(link_stream.frame(link_stream.REFUSED))
            self.flush()
            self.sock.shutdown(socket.SHUT_WR)
        except (Closed, OSError):
            pass
        self.unsent = b""

    def close(self):
        """With a goodbye, as far as the kernel takes it."""
        if not self.closed and self.shaken and not self.refused:
            try:
                self.tls.unwrap()
            except (self.ssl.SSLError, OSError):
                pass  # the other end's goodbye is not waited for
            try:
                self.flush()
            except Closed:
                pass
        self.closed = True
        self.sock.close()


def in_words(error):
    words = getattr(error, "strerror", None) or str(error)
    return words[:1].lower() + words[1:]
