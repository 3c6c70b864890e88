"""Read the body of an HTTP response within limits on its size, its speed and its duration."""

import http.client
import socket
import time

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterator

PIECE = 1 << 17
FINAL = frozenset({400, 401, 403, 404, 405, 407, 410, 451})


class BodyBroken(Exception):
    """A failure of the server or of the network, described in words. `status` 0: no HTTP response.

    `untrusted`: the host whose certificate could not be verified.
    """

    def __init__(
        self,
        words: str,
        status: int = 0,
        pause: "float | None" = None,
        *,
        untrusted: str = "",
        stalled: bool = False,
    ) -> None:
        super().__init__(words)
        self.status, self.pause, self.untrusted = status, pause, untrusted
        self.stalled = stalled

    @property
    def final(self) -> bool:
        """Whether a retry would be useless."""
        return bool(self.untrusted) or self.status in FINAL


class TooLarge(BodyBroken):
    """The server sends more than the requested file can have; nothing of it is kept."""

    @property
    def final(self) -> bool:
        return True


def read_body_pieces(
    answer: http.client.HTTPResponse,
    most: int,
    timeout: float,
    slowest: int,
    longest: float = float("inf"),
    have: int = 0,
) -> "Iterator[bytes]":
    """Yield the bytes as they arrive. Raise Broken after `timeout` seconds (the socket's timeout,
    too) with less than `slowest` bytes per second, or after more than `longest` seconds in all.

    `most`: the largest permitted size of the file, `have` bytes of which exist already.
    """
    remaining, size, received = answer.length, have, 0
    start = since = time.monotonic()
    while remaining != 0:  # older Pythons would wait until the server closes
        now = time.monotonic()
        if now - start > longest:
            raise BodyBroken("not complete after %g s" % longest)
        if now - since > timeout:
            if received < slowest * timeout:
                words = "less than %g kB/s for %g s" % (slowest / 1e3, timeout)
                raise BodyBroken(words, stalled=True)
            received, since = 0, now
        try:
            piece = answer.read1(PIECE)
        except socket.timeout:
            raise BodyBroken("no more data for %g s" % timeout, stalled=True) from None
        except (http.client.HTTPException, OSError) as e:
            raise BodyBroken(str(e) or type(e).__name__) from None
        if size + max(remaining or 0, len(piece)) > most:
            raise TooLarge("larger than the {:,} bytes that are allowed".format(most))
        if not piece:
            break
        yield piece
        size, received = size + len(piece), received + len(piece)
        remaining = None if remaining is None else remaining - len(piece)
    if remaining:
        raise BodyBroken("the connection ended %.1f MB too early" % (remaining / 1e6))
