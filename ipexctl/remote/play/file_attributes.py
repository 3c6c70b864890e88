"""The mode, owner and group of a file: those a step requests, and those it has."""

import grp
import os
import pwd
import re
import stat

from ipexctl.remote.failure import Failure

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable, Mapping
    from typing import Any

_OPERATION = re.compile(r"([=+-])([rwxXst]+|[ugo]?)")
_SHIFTS = {"u": 6, "g": 3, "o": 0}
_SPECIAL = {"u": 0o4000, "g": 0o2000, "o": 0o1000}
_NUMBER = re.compile(r"[0-9]{1,10}\Z")
_HIGHEST_ID = (1 << 32) - 2  # the number above means "unchanged"


class Attributes:
    """The attributes that a step requests; None: unchanged."""

    def __init__(self, args: "Mapping[str, Any]") -> None:
        self.mode = args.get("mode") or ""
        self.owner = user_id(args.get("owner") or "")
        self.group = group_id(args.get("group") or "")

    def changes(self, status: "os.stat_result | None") -> str:
        """Return in words what has to change for a file (a stat, or None); "": nothing."""
        if status is None:
            return ""
        changes = []
        mode, new_mode = self._desired_modes(status)
        if mode != new_mode:
            changes.append("mode %04o -> %04o" % (mode, new_mode))
        if self.owner not in (None, status.st_uid):
            changes.append("owner %d -> %d" % (status.st_uid, self.owner))
        if self.group not in (None, status.st_gid):
            changes.append("group %d -> %d" % (status.st_gid, self.group))
        return ", ".join(changes)

    def _desired_modes(self, status: "os.stat_result") -> "tuple[int, int]":
        mode = stat.S_IMODE(status.st_mode)
        return mode, mode_of(self.mode, mode, stat.S_ISDIR(status.st_mode)) if self.mode else mode

    def apply(self, fd: int, path: str = "") -> None:
        """Set the attributes of an open file. The owner comes first: chown clears setuid bits."""
        status = os.fstat(fd)
        owner = status.st_uid if self.owner is None else self.owner
        group = status.st_gid if self.group is None else self.group
        try:
            if (owner, group) != (status.st_uid, status.st_gid):
                os.fchown(fd, owner, group)
            mode, new_mode = self._desired_modes(os.fstat(fd))
            if mode != new_mode:
                os.fchmod(fd, new_mode)
        except PermissionError:
            raise _not_permitted(path) from None

    def fits_in_place(self, status: "os.stat_result") -> bool:
        """Decide whether to change the file itself: not if it has other names, nor to set a setuid
        bit for another user, who may have it open for writing."""
        trusted = status.st_uid in (0, os.geteuid())
        setuid = self.mode and self._desired_modes(status)[1] & 0o6000
        return status.st_nlink == 1 and (trusted or not setuid)

    def apply_new(self, fd: int, old: "os.stat_result | None", default: int) -> None:
        """Set the attributes of a file that is to replace `old` (a stat, or None)."""
        if old is None:
            os.fchmod(fd, default & ~_umask())
        else:
            inherited = Attributes({})
            inherited.owner = old.st_uid if self.owner is None else self.owner
            inherited.group = old.st_gid if self.group is None else self.group
            inherited.apply(fd)
            # as chown does: no setuid program of one user becomes that of another
            same = (inherited.owner, inherited.group) == (old.st_uid, old.st_gid)
            os.fchmod(fd, stat.S_IMODE(old.st_mode) & (0o7777 if same else 0o1777))
        self.apply(fd)


def require_owner(status: "os.stat_result", path: str) -> None:
    """Raise Failure in a check unless this user may change the attributes: the owner or root."""
    if os.geteuid() not in (0, status.st_uid):
        raise _not_permitted(path)


def _not_permitted(path: str) -> "Failure":
    what = "cannot change %s: it belongs to another user" % (path or "the attributes")
    return Failure(what, hint="sudo: true", slug="not-permitted")


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def mode_of(text: str, old_mode: int, is_folder: bool) -> int:
    """Return the mode for 0644, 644, u+x, u=rw,go= or g=u, as chmod reads them."""
    if text.isdigit():
        return int(text, 8)
    mode = old_mode
    for part in text.split(","):
        who = part[: len(part) - len(part.lstrip("ugoa"))]
        for sign, perms in _OPERATION.findall(part):
            mode = _change_mode(mode, who, sign, perms, is_folder)
    return mode


def _change_mode(mode: int, who: str, sign: str, perms: str, is_folder: bool) -> int:
    """Apply one operation, such as u+x, to a mode as chmod does."""
    users = "ugo" if not who or "a" in who else "".join(set(who))
    mask = 0 if who else _umask()
    bits = sum(_permission_bits(mode, perms, is_folder) << _SHIFTS[kind] for kind in users) & ~mask
    if "s" in perms:
        bits |= sum(_SPECIAL[kind] for kind in users if kind != "o")
    if "t" in perms and "o" in users:
        bits |= _SPECIAL["o"]
    if sign == "=":  # a folder's setuid and setgid bits stay unless they are named
        mode &= ~sum(7 << _SHIFTS[kind] for kind in users)
        mode &= ~sum(
            _SPECIAL[kind] for kind in users if kind == "o" or "s" in perms or not is_folder
        )
    return mode & ~bits if sign == "-" else mode | bits


def _permission_bits(mode: int, perms: str, is_folder: bool) -> int:
    if perms in ("u", "g", "o"):  # copy the bits of that class
        return mode >> _SHIFTS[perms] & 7
    runs = "x" in perms or "X" in perms and (is_folder or mode & 0o111)
    return ("r" in perms) * 4 | ("w" in perms) * 2 | bool(runs)


def user_id(text: str) -> "int | None":
    return _look_up_id(text, "user", lambda: pwd.getpwnam(text).pw_uid)


def group_id(text: str) -> "int | None":
    return _look_up_id(text, "group", lambda: grp.getgrnam(text).gr_gid)


def _look_up_id(text: str, kind: str, look_up: "Callable[[], int]") -> "int | None":
    if not text:
        return None
    if _NUMBER.match(text) and int(text) <= _HIGHEST_ID:
        return int(text)
    try:
        return look_up()
    except (KeyError, ValueError):
        raise Failure(
            "there is no %s %s on this host" % (kind, text), slug="account-missing"
        ) from None
