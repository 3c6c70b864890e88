"""Write files completely or not at all, and flush those that must survive a power cut."""

import errno
import json
import os
import stat
from contextlib import contextmanager, suppress

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    import hashlib
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO

    Path = str | os.PathLike[str]


def is_unfinished(name: str) -> bool:
    """Return whether who wrote this file was killed before it was complete. Hosts and runs have
    no ~ in their names."""
    return "~" in os.path.basename(name)


def write_atomic(
    path: "Path", data: "str | bytes", *, mode: "int | None" = 0o600, sync: bool = False
) -> None:
    """Replace a file in one step. `mode` None: the umask decides, but other users never get write
    access, since ipexctl does not use files that others can write."""
    with open_atomic(path, mode=mode, sync=sync) as file:
        file.write(data.encode("utf-8") if isinstance(data, str) else data)


@contextmanager
def open_atomic(
    path: "Path", *, mode: "int | None" = 0o600, sync: bool = False
) -> "Iterator[BinaryIO]":
    """Open a new file that replaces `path` when the block ends; if it raises, `path` is unchanged.

    `sync`: flush the bytes to the disk before the rename, and the rename before the block is left.
    """
    part = "%s~%d-%s" % (os.fspath(path), os.getpid(), os.urandom(4).hex())
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    fd = os.open(part, flags, 0o644 if mode is None else 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        if mode is not None:
            os.chmod(part, mode)
        os.rename(part, path)
        if sync:
            sync_folder(os.path.dirname(path) or os.curdir)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def open_regular(path: "Path", flags: int = 0) -> "BinaryIO":
    """Open a file to read it. Raise OSError if it is none: ranks can write to the folder of their
    run, and a pipe in a file's place would be waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | flags)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a file", os.fspath(path))
    return os.fdopen(fd, "rb")


def read_json(path: "Path") -> "dict[str, Any] | None":
    """Return the JSON object in a file; None if the file is missing or holds something else."""
    try:
        with open_regular(path) as file:
            value = json.loads(file.read().decode("utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def hash_of(
    file: "BinaryIO", write: "Callable[[bytes], object]" = len, hashed: str = "sha256"
) -> "hashlib._Hash":
    """Return the hash of the rest of an open file; each piece is also passed to `write`."""
    import hashlib

    digest = hashlib.new(hashed)
    for piece in iter(lambda: file.read(1 << 20), b""):
        digest.update(piece)
        write(piece)
    return digest


def remove_path(path: "Path | bytes") -> None:
    """Remove a file, a link or a folder, as far as possible: failures are ignored."""
    import shutil

    try:
        os.unlink(path)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def replace_link(folder: str, name: str, target: str) -> None:
    """Replace a symlink atomically: the name always leads to the old or the new target."""
    fresh = os.path.join(folder, ".%s-%d" % (name, int.from_bytes(os.urandom(8), "big")))
    os.symlink(target, fresh)
    rename_synced(fresh, os.path.join(folder, name))


def rename_synced(fresh: str, path: str) -> None:
    """Rename a file and flush the folder, so that the new name survives a power cut."""
    os.rename(fresh, path)
    sync_folder(os.path.dirname(path))


def sync_folder(path: "Path") -> None:
    """Flush the folder's entries to the disk, where its file system can do that; what they name
    has been flushed before."""
    fd = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(fd)
    finally:
        os.close(fd)


def sync_disk(path: "Path | bytes") -> None:
    """Flush everything written to its file system to the disk: one wait for many files."""
    import ctypes

    fd = os.open(path, os.O_RDONLY)
    try:
        try:
            failed = ctypes.CDLL(None, use_errno=True).syncfs(fd)
        except (AttributeError, OSError):  # a C library without it, as on macOS
            os.sync()
            return
        if failed:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    finally:
        os.close(fd)
