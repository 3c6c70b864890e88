"""Cutting a file into chunks where its content says so, so that an insertion moves few of them.

The controller imports this module: both sides must cut alike.
"""

import re
import zlib
from typing import BinaryIO, Iterator

LEAST, MOST = 512 << 10, 4 << 20  # bytes of a chunk
# Python is too slow for a rolling hash: `re` finds places to look at, about one in 256
PLACE = re.compile(b"[%s][%s]" % tuple(
    b"".join(b"\\x%02x" % (high << 4 | low) for high in range(16)) for low in (5, 0)
))  # fmt: skip
WINDOW = 48  # bytes before the place, which decide
RARE = 2048  # one place in so many ends a chunk


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """The bytes of each."""
    data = b""
    while True:
        while len(data) < MOST:
            more = file.read(MOST - len(data))
            if not more:
                break
            data += more
        if not data:
            return
        end = first_end(data)
        yield data[:end]
        data = data[end:]


def first_end(data: bytes) -> int:
    for place in PLACE.finditer(data, LEAST):
        end = place.end()
        if zlib.crc32(data[end - WINDOW : end]) % RARE == 0:
            return end
    return len(data)
