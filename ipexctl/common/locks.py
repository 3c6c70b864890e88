"""Lock open files, and check whether a locked file still has its name."""

import errno
import fcntl
import os

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    Path = str | bytes | os.PathLike[str]


def try_lock(fd: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Lock the file. Return False if another process holds the lock; True also without locks."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError as e:
        return e.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


def take_lock(path: "Path") -> "int | None":
    """Open and lock an existing file. Return None if another process holds the lock, or if the file
    system has no locks."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def is_named(fd: int, path: "Path", folder: "int | None" = None) -> bool:
    """Decide whether the open file still has this path: the previous holder of the lock may have
    moved or removed it. `folder`: the descriptor to which the path is relative."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, dir_fd=folder, follow_symlinks=False))
    except OSError:
        return False
