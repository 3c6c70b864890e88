"""The data on the link between two hosts of a run, without any I/O: frames, numbers, resending.

A frame is its kind, a number and the length of its body, then the body. Messages are numbered from
1; a greeting and a beat carry the number of the last message that was taken. What is not
acknowledged is sent again over the next connection, and what comes twice is dropped.
"""

import json
import struct
from collections import deque

from ipexctl.common.strict_json import read_strict_json

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterator
    from typing import Any

    Frame = tuple[int, int, bytes]  # kind, number, body

HEAD = struct.Struct(">BQI")
HELLO, MESSAGE, BEAT = 1, 2, 3
LIMIT = 1 << 20  # bytes of one message
TOKEN = 16
MESSAGES, BYTES = 10000, 16 << 20  # limits of what waits for an acknowledgement


class BadRecord(Exception):
    """The other end violates this format, or is another process than before."""


def pack_frame(kind: int, number: int = 0, body: bytes = b"") -> bytes:
    return HEAD.pack(kind, number, len(body)) + body


def encode_message(message: object) -> bytes:
    body = json.dumps(message).encode("ascii")
    if len(body) > LIMIT:
        raise ValueError("a message of %d bytes: the limit is %d" % (len(body), LIMIT))
    return body


DEPTH = 40  # of a message: a journal and an answer have it inside of documents of their own


def decode_message(body: bytes) -> "Any":
    """Return the message; None for what is none. That counts as taken, too: else it would come
    again and again, and its host would never be lost."""
    try:
        return read_strict_json(body, DEPTH)
    except ValueError:
        return None


class RecordDecoder:
    """Split a stream of bytes, received in any pieces, into frames."""

    def __init__(self) -> None:
        self.rest = bytearray()

    def feed(self, data: bytes) -> "Iterator[Frame]":
        """Add received bytes and yield (kind, number, body) of each complete frame."""
        self.rest += data
        offset = 0
        try:
            while len(self.rest) - offset >= HEAD.size:
                kind, number, size = HEAD.unpack_from(self.rest, offset)
                if size > LIMIT or not HELLO <= kind <= BEAT:
                    raise BadRecord("a frame of kind %d with %d bytes" % (kind, size))
                end = offset + HEAD.size + size
                if len(self.rest) < end:
                    return
                body = bytes(self.rest[offset + HEAD.size : end])
                offset = end
                yield kind, number, body
        finally:
            del self.rest[:offset]


class Stream:
    """The messages to and from one other host, over any number of connections."""

    def __init__(self, token: bytes) -> None:
        self.token = token  # TOKEN bytes: tells this process from a restarted one
        self.other: "bytes | None" = None  # the token of the other end
        self.last = 0  # number of the newest message sent
        # (number, frame): not yet written to this connection
        self.waiting = deque()  # type: deque[tuple[int, bytes]]
        # written to it, and not yet acknowledged
        self.written = deque()  # type: deque[tuple[int, bytes]]
        self.size = 0  # bytes of both
        self.taken = 0  # number of the last message received

    def put(self, body: bytes) -> bool:
        """Queue a message. Return False if too much waits already."""
        size = self.size + HEAD.size + len(body)
        if len(self.waiting) + len(self.written) >= MESSAGES or size > BYTES:
            return False
        self.size = size
        self.last += 1
        self.waiting.append((self.last, pack_frame(MESSAGE, self.last, body)))
        return True

    def pending(self) -> bool:
        """Return whether something is not acknowledged."""
        return bool(self.waiting or self.written)

    def clear(self) -> None:
        self.waiting.clear()
        self.written.clear()
        self.size = 0

    # -- one connection --

    def hello(self, name: str) -> bytes:
        """Return the greeting. `name`: this host's name."""
        return pack_frame(HELLO, self.taken, self.token + name.encode("utf-8"))

    def beat(self) -> bytes:
        return pack_frame(BEAT, self.taken)

    def check(self, token: bytes) -> None:
        """Raise BadRecord unless the other end is still the process of the last connection."""
        if not token or self.is_another(token):
            raise BadRecord("another process of that host")

    def is_another(self, token: bytes) -> bool:
        return (self.other or token) != token

    def resume(self, number: int, token: bytes) -> None:
        """Begin a new connection, and queue again what the other end has not received."""
        self.check(token)
        self.waiting.extendleft(reversed(self.written))
        self.written.clear()
        first = self.waiting[0][0] if self.waiting else self.last + 1
        if not first - 1 <= number <= self.last:
            raise BadRecord("message %d acknowledged of %d to %d" % (number, first, self.last))
        self.other = token
        self._drop_frames(self.waiting, number)

    def next_bytes(self, limit: int) -> bytes:
        """Return complete frames to write now, about `limit` bytes but at least one frame."""
        frames: "list[bytes]" = []
        size = 0
        while self.waiting and size < limit:
            frames.append(self.waiting[0][1])
            size += len(frames[-1])
            self.written.append(self.waiting.popleft())
        return b"".join(frames)

    def take_acknowledgement(self, number: int) -> None:
        if number > (self.written[-1][0] if self.written else self.last - len(self.waiting)):
            raise BadRecord("message %d acknowledged, which was not sent" % number)
        self._drop_frames(self.written, number)

    def _drop_frames(self, frames: "deque[tuple[int, bytes]]", number: int) -> None:
        while frames and frames[0][0] <= number:
            self.size -= len(frames.popleft()[1])

    def is_new(self, number: int) -> bool:
        """Return whether a received message is new; a repeated one is not."""
        if number > self.taken + 1:
            raise BadRecord("message %d after %d" % (number, self.taken))
        if number <= self.taken:
            return False
        self.taken = number
        return True
