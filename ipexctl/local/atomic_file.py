"""Files that are written completely or not at all, and on the disk where a power cut would hurt."""

from __future__ import annotations

import ctypes
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def write_atomic(
    path: Path, data: str | bytes, *, mode: int | None = 0o600, sync: bool = False
) -> None:
    """A reader sees the old file or the new one. `mode` None: as the umask says, but not writable
    by others, whose files ipexctl does not use."""
    with open_atomic(path, mode=mode, sync=sync) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextmanager
def open_atomic(path: Path, *, mode: int | None = 0o600, sync: bool = False) -> Iterator[BinaryIO]:
    """`path` is replaced when the block ends, and stays what it was when it raises.

    `sync`: the bytes are on the disk before the name is, and the name is when the block has ended.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = os.open(part, flags, 0o644 if mode is None else 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        if mode is not None:
            part.chmod(mode)
        part.replace(path)
        if sync:
            sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Flush the folder's entries to the disk, where its file system can do that."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)


def sync_disk(folder: Path) -> None:
    """Flush everything written to its file system to the disk: one wait for many files."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(fd):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(folder))
    except AttributeError:  # macOS has no syncfs
        os.sync()
    finally:
        os.close(fd)
