"""mode, owner and group of a file, as steps give them and as they are."""

import grp
import os
import pwd
import re
import stat

from ipexctl.remote.failure import Failure

_OCTAL = re.compile(r"0?[0-7]{3,4}\Z")
_SYMBOLIC = re.compile(r"([ugoa]*)([=+-])([rwxXst]*)\Z")
_SHIFTS = {"u": 6, "g": 3, "o": 0}


class Attributes:
    """What a step asks for; None: as it is."""

    def __init__(self, args):
        self.mode = args.get("mode") or ""
        self.owner = user_id(args.get("owner") or "")
        self.group = group_id(args.get("group") or "")

    def missing(self, found):
        """[(what, now, then)] of what is to change."""
        if found is None:
            return []
        changes = []
        now = stat.S_IMODE(found.st_mode)
        if self.mode and not stat.S_ISLNK(found.st_mode):
            wanted = mode_of(self.mode, now, stat.S_ISDIR(found.st_mode))
            if wanted != now:
                changes.append(("mode", "%04o" % now, "%04o" % wanted))
        if self.owner is not None and self.owner != found.st_uid:
            changes.append(("owner", str(found.st_uid), str(self.owner)))
        if self.group is not None and self.group != found.st_gid:
            changes.append(("group", str(found.st_gid), str(self.group)))
        return changes

    def apply(self, fd):
        """On an open file or folder. First the owner: chown takes setuid bits away."""
        self.own(fd)
        found = os.fstat(fd)
        if self.mode:
            now = stat.S_IMODE(found.st_mode)
            wanted = mode_of(self.mode, now, stat.S_ISDIR(found.st_mode))
            if wanted != now:
                os.fchmod(fd, wanted)

    def own(self, fd):
        found = os.fstat(fd)
        owner = found.st_uid if self.owner is None else self.owner
        group = found.st_gid if self.group is None else self.group
        if (owner, group) != (found.st_uid, found.st_gid):
            try:
                os.fchown(fd, owner, group)
            except PermissionError:
                raise Failure("cannot change the owner: not permitted", hint="sudo: true") from None

    def apply_new(self, fd, old, default):
        """On a file that is to take the place of `old` (a stat, or None)."""
        if old is not None:
            kept = Attributes({})
            kept.owner = old.st_uid if self.owner is None else self.owner
            kept.group = old.st_gid if self.group is None else self.group
            if (kept.owner, kept.group) != (os.geteuid(), os.getegid()):
                kept.own(fd)
            os.fchmod(fd, stat.S_IMODE(old.st_mode))
        else:
            os.fchmod(fd, default & ~_umask())
        self.apply(fd)


def _umask():
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def mode_of(text, now, is_folder):
    """0644, 644, u+x, u=rw,go=r. Raises Failure."""
    if _OCTAL.match(text):
        return int(text, 8)
    mode = now
    for part in text.split(","):
        found = _SYMBOLIC.match(part)
        if not found:
            raise Failure("mode %r is neither octal nor symbolic" % text, hint="mode: '0644'")
        mode = _changed(mode, found.group(1), found.group(2), found.group(3), is_folder)
    return mode


def _changed(mode, who, sign, what, is_folder):
    bits = special = 0
    runs = is_folder or mode & 0o111
    for letter in what:
        if letter in "rwx" or (letter == "X" and runs):
            bits |= {"r": 4, "w": 2, "x": 1, "X": 1}[letter]
    mask = 0
    for letter in "ugo" if not who or "a" in who else who:
        mask |= bits << _SHIFTS[letter]
        if "s" in what and letter in "ug":
            special |= 0o4000 if letter == "u" else 0o2000
        if sign == "=":
            mode &= ~(7 << _SHIFTS[letter])
    if "t" in what:
        special |= 0o1000
    return mode & ~(mask | special) if sign == "-" else mode | mask | special


def user_id(text):
    if not text:
        return None
    try:
        return int(text) if text.isdigit() else pwd.getpwnam(text).pw_uid
    except KeyError:
        raise Failure("there is no user %s on this host" % text) from None


def group_id(text):
    if not text:
        return None
    try:
        return int(text) if text.isdigit() else grp.getgrnam(text).gr_gid
    except KeyError:
        raise Failure("there is no group %s on this host" % text) from None


def describe(changes):
    return ", ".join("%s %s -> %s" % change for change in changes)
