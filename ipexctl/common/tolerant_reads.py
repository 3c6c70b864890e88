"""What files and folders tell, where one that cannot be read is as good as none."""

import os

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import AnyStr


def read_text(path: str, until: bytes = b"") -> str:
    """The text of a file, "" where there is none; stops early once `until` was seen."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        data = b""
        while True:
            part = os.read(fd, 65536)
            data += part
            if not part or (until and until in data):
                return data.decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def names_in(folder: str) -> "list[str]":
    """The names in a folder, in no order."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def link_of(path: "AnyStr") -> "AnyStr":
    """What a link says; "" for what is not one."""
    try:
        return os.readlink(path)
    except OSError:
        return path[:0]


def info_of(path: "str | bytes") -> "os.stat_result | None":
    """What is known of a file, a folder or a link itself."""
    try:
        return os.lstat(path)
    except OSError:
        return None


def size_of(path: str) -> int:
    """In bytes; of a link, of what it leads to."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def changed_at(path: str) -> float:
    """When it was written last, in seconds."""
    info = info_of(path)
    return info.st_mtime if info else 0.0
