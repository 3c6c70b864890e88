"""Read files of a project, which may be pipes, devices or larger than memory."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LIMIT = 4 << 20  # bytes of a file that people write by hand


def read_prefix(path: Path, limit: int = LIMIT) -> bytes:
    """Return the first bytes of a regular file. Raises OSError for others, without blocking."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read(limit)


def read_file(path: Path, limit: int = LIMIT) -> bytes:
    """Return all of a regular file. Raises OSError also if it is larger than the limit."""
    data = read_prefix(path, limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit >> 20} MiB")
    return data
