"""Read frames (common/frames.py) of agents, which are not trusted, as their bytes arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipexctl.common.frames import HEAD
from ipexctl.common.strict_json import read_strict_json
from ipexctl.quick_dataclass import dataclass

LIMIT = 8 << 20  # of a body
HEADER_LIMIT = 8 << 20
MOST_VALUES = 500_000  # in a header: each takes up to 36 times its JSON in memory


@dataclass(frozen=True)
class Frame:
    header: Mapping[str, Any]
    body: bytes = b""


class BadFrame(Exception):
    """The stream does not follow our protocol."""


class Decoder:
    """Turns bytes into complete frames and keeps the rest. Raises BadFrame for invalid data."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        self._buffer += data
        frames = []
        while (frame := self._take_frame()) is not None:
            frames.append(frame)
        return frames

    def _take_frame(self) -> Frame | None:
        """Remove the first frame from the buffer; None if it is not complete yet."""
        buffer = self._buffer
        if len(buffer) < HEAD.size:
            return None
        size, body_size = HEAD.unpack_from(buffer)
        if size > min(self.limit, HEADER_LIMIT) or body_size > self.limit:
            raise BadFrame(f"a frame of {size} + {body_size} bytes")
        end = HEAD.size + size + body_size
        if len(buffer) < end:
            return None
        header = _parse_header(bytes(buffer[HEAD.size : HEAD.size + size]))
        body = bytes(buffer[HEAD.size + size : end])
        del buffer[:end]
        return Frame(header, body)


def _parse_header(data: bytes) -> Mapping[str, Any]:
    if sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise BadFrame(f"a header of more than {MOST_VALUES:,} values")
    try:
        header = read_strict_json(data)
    except ValueError as e:
        raise BadFrame("a header that is not JSON") from e
    if not isinstance(header, dict) or type(header.get("id")) is not int:
        raise BadFrame("a header without an id")
    return header
