"""The body of an HTTP answer, read within limits of bytes and of time."""

import http.client
import socket
import time

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterator

PIECE = 1 << 17
FINAL = frozenset({400, 401, 403, 404, 405, 407, 410, 451})


class Broken(Exception):
    """The server's fault or the network's, in words. `status` 0: it was no answer of HTTP.

    `untrusted`: the host whose certificate is not one to go by.
    """

    def __init__(
        self, words: str, status: int = 0, pause: "float | None" = None, *, untrusted: str = "",
        stalled: bool = False
    ) -> None:  # fmt: skip
        super().__init__(words)
        self.status, self.pause, self.untrusted = status, pause, untrusted
        self.stalled = stalled

    @property
    def final(self) -> bool:
        """Asking again is of no use."""
        return bool(self.untrusted) or self.status in FINAL


class TooLarge(Broken):
    """The server sends another file than the one that was asked for; nothing of it is kept."""

    @property
    def final(self) -> bool:
        return True


def pieces(
    answer: http.client.HTTPResponse, most: int, timeout: float, slowest: int,
    longest: float = float("inf"), have: int = 0
) -> "Iterator[bytes]":  # fmt: skip
    """The bytes as they come. Raises Broken where less than `slowest` bytes per second come for
    `timeout` seconds (which the socket waits, too), or it takes longer than `longest` seconds.

    `most`: bytes of the file, `have` of which were here before.
    """
    left, size, came = answer.length, have, 0
    began = since = time.monotonic()
    while left != 0:  # older Pythons would wait for the server to hang up
        now = time.monotonic()
        if now - began > longest:
            raise Broken("not complete after %g s" % longest)
        if now - since > timeout:
            if came < slowest * timeout:
                words = "less than %g kB/s for %g s" % (slowest / 1e3, timeout)
                raise Broken(words, stalled=True)
            came, since = 0, now
        try:
            piece = answer.read1(PIECE)
        except socket.timeout:
            raise Broken("no more data for %g s" % timeout, stalled=True) from None
        except (http.client.HTTPException, OSError) as e:
            raise Broken(str(e) or type(e).__name__) from None
        if size + max(left or 0, len(piece)) > most:
            raise TooLarge("larger than the {:,} bytes that are allowed".format(most))
        if not piece:
            break
        yield piece
        size, came = size + len(piece), came + len(piece)
        left = None if left is None else left - len(piece)
    if left:
        raise Broken("the connection ended %.1f MB too early" % (left / 1e6))
