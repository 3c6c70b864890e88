"""Read and write frames: two big-endian u32 (sizes of JSON header and binary body), then both."""

import json
import struct
import threading

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    import socket
    from collections.abc import Mapping
    from typing import IO, Any

HEAD = struct.Struct(">II")
LIMIT = 64 << 20


def encode_frame(header: "Mapping[str, Any]", body: bytes = b"") -> bytes:
    data = json.dumps(header).encode("utf-8")
    return HEAD.pack(len(data), len(body)) + data + body


class Frames:
    """Read frames from one file and write frames to another; any thread may write."""

    def __init__(self, source: "IO[bytes]", sink: "IO[bytes]") -> None:
        self.source = source
        self.sink = sink
        self.lock = threading.Lock()

    def write(self, header: "Mapping[str, Any]", body: bytes = b"") -> None:
        frame = encode_frame(header, body)
        with self.lock:
            self.sink.write(frame)
            self.sink.flush()

    def read(self) -> "tuple[Any, bytes] | None":
        """Return (header, body); None at the end of the stream, after a connection reset, and where
        the bytes are not a frame."""
        try:
            head = self.source.read(HEAD.size)
            if len(head) < HEAD.size:
                return None
            size, body_size = HEAD.unpack(head)
            if size > LIMIT or body_size > LIMIT:
                return None
            data = self.source.read(size)
            body = self.source.read(body_size) if body_size else b""
        except OSError:
            return None
        if len(data) < size or len(body) < body_size:
            return None
        return json.loads(data.decode("utf-8")), body


def of_socket(link: "socket.socket") -> Frames:
    return Frames(link.makefile("rb"), link.makefile("wb"))
