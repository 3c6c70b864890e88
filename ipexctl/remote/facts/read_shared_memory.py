"""Read the state of /dev/shm, and what ended MPI processes left there."""

import os
import re

from ipexctl.remote.facts.probe_values import list_entries
from ipexctl.remote.facts.read_storage import statvfs_or_none

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any


OF_PROCESS = re.compile(r"(\d+):\d+:\d+\Z")  # a name that begins with a process ID


def read_shared_memory() -> "dict[str, Any]":
    shm = statvfs_or_none("/dev/shm")
    holder = shm or statvfs_or_none("/dev")  # or where it would be
    return {
        "shm_total": shm.f_blocks * shm.f_frsize if shm else None,
        "shm_free": shm.f_bavail * shm.f_frsize if shm else None,
        "shm_there": os.path.isdir("/dev/shm"),
        "shm_writable": os.access("/dev/shm", os.W_OK | os.X_OK) if shm else None,
        "shm_read_only": bool(holder.f_flag & os.ST_RDONLY) if holder else None,
    }


def count_stale_shm() -> "tuple[int, int]":
    """Return (number, bytes) of this user's shared memory of MPI processes that have ended."""
    count = size = 0
    for name in list_entries("/dev/shm"):
        match = OF_PROCESS.match(name)
        if not match or os.path.exists("/proc/" + match.group(1)):
            continue
        try:
            info = os.stat("/dev/shm/" + name)
        except OSError:
            continue
        if info.st_uid == os.getuid():
            count, size = count + 1, size + info.st_blocks * 512
    return count, size
