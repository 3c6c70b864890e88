"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_atomic(
    path: Path, data: str | bytes, *, mode: int | None = 0o600, sync: bool = False
) -> None:
    """A reader sees the old file or the new one. `mode` None: as the umask says."""
    with open_atomic(path, mode=mode, sync=sync) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextmanager
def open_atomic(path: Path, *, mode: int | None = 0o600, sync: bool = False) -> Iterator[BinaryIO]:
    """`path` is replaced when the block ends, and stays what it was when it raises.

    `sync`: the bytes are on the disk before the name is, for what a power cut must not empty.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = os.open(part, flags, 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        if mode is not None:
            part.chmod(mode)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
