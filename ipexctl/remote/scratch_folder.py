"""Temporary folders of this host: of a run, for its socket and MPI's files, and of a proof.

The owner holds a lock on a file in it as long as it lives. So leftovers of a killed process, or
of a power cut, can be told from folders in use, also by a process in another container, or on
another host if TMPDIR is shared.
"""

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time

from ipexctl.common.folder_trust import is_private_group
from ipexctl.common.locks import take_lock
from ipexctl.common.tolerant_reads import info_of

LOCK, NEW = "lock", ".new"  # NEW: until it is locked
NAME = re.compile(r"ipexctl-(?:proof-)?[a-z0-9_]{8}\Z")
OLD = 3600  # age in seconds from which one without a lock is not being created any more
locks = {}  # type: dict[str, int]  # of this process, by folder


def make_scratch_folder(kind: str = "") -> str:
    """Create a folder with a short path, as that of a socket in it has at most 107 bytes."""
    default = tempfile.gettempdir()
    top = default if len(default) < 80 and not others_can_rename(default) else "/tmp"
    folder = tempfile.mkdtemp(prefix="ipexctl-" + kind, dir=top)
    new_lock = os.path.join(folder, LOCK + NEW)
    fd = os.open(new_lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.rename(new_lock, os.path.join(folder, LOCK))  # the file is always locked
        locks[folder] = fd
    except OSError:  # a file system without locks
        os.close(fd)
    return folder


def remove_scratch_folder(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if folder in locks:
        os.close(locks.pop(folder))


def sweep_scratch_folders() -> None:
    """Remove the folders of this user whose owners have ended."""
    for top in all_temporary():
        try:
            names = [] if others_can_rename(top) else os.listdir(top)
        except OSError:
            continue
        for name in filter(NAME.match, names):
            path = os.path.join(top, name)
            info = info_of(path)
            is_ours = info and stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid()
            if info and is_ours and is_abandoned(path, info):
                shutil.rmtree(path, ignore_errors=True)


def all_temporary() -> "list[str]":
    return sorted({tempfile.gettempdir(), "/tmp"})


def others_can_rename(top: str) -> bool:
    """Return whether other users could give a folder of this user such a name."""
    info = os.stat(top)
    by_group = info.st_mode & stat.S_IWGRP and not is_private_group(info.st_gid)
    return bool((info.st_mode & stat.S_IWOTH or by_group) and not info.st_mode & stat.S_ISVTX)


def is_abandoned(path: str, info: "os.stat_result") -> bool:
    lock = os.path.join(path, LOCK)
    if not os.path.lexists(lock):  # killed early, unless the file system has no locks
        return not os.path.lexists(lock + NEW) and info.st_mtime < time.time() - OLD
    fd = take_lock(lock)
    if fd is not None:
        os.close(fd)
    return fd is not None
