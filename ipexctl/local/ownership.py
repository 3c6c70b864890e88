"""Whether another user could have written a file."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path


def untrusted_reason(path: Path) -> str:
    """Why another user could have written the file or replaced it; "" if none could."""
    try:
        return _reason(path, "") or _reason(path.parent, f"{path.parent} is ")
    except OSError as e:
        return e.strerror or str(e)


def untrusted_here(folder: Path) -> str:
    """The same for the folder itself, wherever it is."""
    return _reason(folder, "")


def foreign_owner(path: Path) -> str:
    """The owner's name if the owner is neither the current user nor root, else ""."""
    uid = path.stat().st_uid
    return "" if uid in (0, os.getuid()) else _user_name(uid)


def _reason(path: Path, subject: str) -> str:
    if owner := foreign_owner(path):
        return f"{subject}owned by {owner}"
    found = path.stat()
    if stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX:
        return ""  # as /tmp: others can add files there, but cannot replace ours
    if found.st_mode & stat.S_IWOTH:
        return f"{subject}writable by everyone"
    if found.st_mode & stat.S_IWGRP and not _is_private_group(found.st_gid):
        return f"{subject}writable by its group"
    return ""


def _is_private_group(gid: int) -> bool:
    """Whether the current user is its only member: many systems create such a group per user."""
    try:
        me, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid in (0, me.pw_gid) and not set(group.gr_mem) - {me.pw_name, "root"}


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
