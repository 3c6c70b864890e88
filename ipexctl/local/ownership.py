"""Detect files that another user could have written."""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

from ipexctl.common.folder_trust import has_acl, is_private_group, passed_folders
from ipexctl.errors import reason_of

MOST_LINKS = 40  # in sequence, as in the kernel


def untrusted_reason(path: Path) -> str:
    """Return why another user could have written or replaced the file; "" if none could.

    Links are followed one by one: a user who can replace one of them decides what the file is.
    """
    try:
        for _ in range(MOST_LINKS):
            if why := _untrusted_because(path, "") or _untrusted_because(
                path.parent, f"{path.parent} is "
            ):
                return why
            if not path.is_symlink():
                return ""
            path = path.parent / path.readlink()
    except OSError as e:
        return reason_of(e)
    return "too many links"


def chmod_command(path: Path, why: str) -> str:
    """Return the command that makes a file trusted; "" for another user's file."""
    folder, is_named, _ = why.partition(" is ")
    return "" if "owned by" in why else f"chmod go-w {folder if is_named else path}"


def untrusted_above(path: Path) -> str:
    """Return why another user could have replaced a folder or link on the way to it, without the
    user's home and what is above that."""
    try:
        for folder in reversed(passed_folders(os.path.abspath(path))):  # noqa: PTH100  not resolved
            with suppress(FileNotFoundError):
                if why := _untrusted_because(Path(folder), f"{folder} is "):
                    return why
    except OSError as e:
        return reason_of(e)
    return ""


def untrusted_here(folder: Path) -> str:
    """Return why another user could have replaced the folder itself."""
    return _untrusted_because(folder, "")


def foreign_owner(path: Path) -> str:
    """Return the owner's name if the owner is neither the current user nor root, else "". A link's
    owner counts too: it decides the target."""
    for read_stat in (path.lstat, path.stat):
        if (uid := read_stat().st_uid) not in (0, os.getuid()):
            return _user_name(uid)
    return ""


def _untrusted_because(path: Path, subject: str) -> str:
    if owner := foreign_owner(path):
        return f"{subject}owned by {owner}"
    info = path.stat()
    if stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX:
        return ""  # like /tmp: others can add files, but cannot replace ours
    if info.st_mode & stat.S_IWOTH:
        return f"{subject}writable by everyone"
    if info.st_mode & stat.S_IWGRP:
        if has_acl(path):
            return f"{subject}writable by others: see getfacl"
        if not is_private_group(info.st_gid):
            return f"{subject}writable by its group"
    return ""


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
