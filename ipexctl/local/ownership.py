"""Who could have written a file: us, root, or somebody else."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path


def why_foreign(path: Path) -> str:
    """Why a file, or the folder that it is in, may hold what another user wants; "" if not."""
    return _why(path, "it") or _why(path.parent, f"its folder {path.parent}")


def _why(path: Path, what: str) -> str:
    try:
        found = path.stat()
    except OSError as e:
        return f"{what}: {e.strerror}"
    if found.st_uid not in (0, os.getuid()):
        return f"{what} belongs to {_user(found.st_uid)}"
    if stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX:
        return ""  # as /tmp: others may add files to it, but not replace ours
    if found.st_mode & stat.S_IWOTH:
        return f"everybody may write to {'it' if what == 'it' else path}"
    if found.st_mode & stat.S_IWGRP and not _own_group(found.st_gid):
        return f"its group may write to {'it' if what == 'it' else path}"
    return ""


def _own_group(gid: int) -> bool:
    """Whether nobody but us is in it: many systems give each user a group of that kind."""
    try:
        me, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid in (0, me.pw_gid) and not set(group.gr_mem) - {me.pw_name, "root"}


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
