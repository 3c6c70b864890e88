"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_atomic(path: Path, data: str | bytes, *, mode: int = 0o600, sync: bool = False) -> None:
    """A reader sees the old file or the new one."""
    with open_atomic(path, mode=mode, sync=sync) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextmanager
def open_atomic(path: Path, *, mode: int = 0o600, sync: bool = False) -> Iterator[BinaryIO]:
    """`path` is replaced when the block ends, and stays what it was when it raises.

    `sync`: the bytes are on the disk before the name is, for what a power cut must not empty.
    """
    fd, part = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        Path(part).chmod(mode)
        Path(part).replace(path)
    finally:
        Path(part).unlink(missing_ok=True)
