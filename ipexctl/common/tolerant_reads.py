"""Read files and folders; one that cannot be read counts as empty."""

import os

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import AnyStr


PART = 65536  # bytes that are read at once


def read_text(path: str, until: bytes = b"", limit: int = 0) -> str:
    """Return the text of a file, "" on failure; stop early once `until` was read, or at `limit`
    bytes. 0: no limit."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a rank can put a pipe in its place
    except OSError:
        return ""
    try:
        parts, size, end = [], 0, b""
        while True:
            part = os.read(fd, min(PART, limit - size) if limit else PART)
            parts.append(part)
            size += len(part)
            end = (end[-len(until) :] if until else b"") + part  # it may begin in an earlier part
            if not part or (until and until in end) or size == limit:
                return b"".join(parts).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def names_in(folder: str) -> "list[str]":
    """Return the names in a folder, in no particular order."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def link_of(path: "AnyStr") -> "AnyStr":
    """Return the target of a link; "" if the path is not a link."""
    try:
        return os.readlink(path)
    except OSError:
        return path[:0]


def info_of(path: "str | bytes") -> "os.stat_result | None":
    """Return the lstat of a file, a folder or a link; None if there is none."""
    try:
        return os.lstat(path)
    except OSError:
        return None


def size_of(path: str) -> int:
    """Return the size in bytes of a file, or of the target of a link; 0 if there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def changed_at(path: str) -> float:
    """Return when a file was last modified, in seconds since the epoch; 0 if there is none."""
    info = info_of(path)
    return info.st_mtime if info else 0.0
