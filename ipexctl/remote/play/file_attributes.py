"""mode, owner and group of a file, as steps give them and as they are."""

import grp
import os
import pwd
import re
import stat

from ipexctl.remote.failure import Failure

_OCTAL = re.compile(r"[0-7]{3,4}\Z|0[0-7]{4}\Z")
_SYMBOLIC = re.compile(r"([ugoa]*)((?:[=+-](?:[rwxXst]*|[ugo]))+)\Z")
_OPERATION = re.compile(r"([=+-])([rwxXst]+|[ugo]?)")
_SHIFTS = {"u": 6, "g": 3, "o": 0}
_SPECIAL = {"u": 0o4000, "g": 0o2000, "o": 0o1000}
_NUMBER = re.compile(r"[0-9]{1,10}\Z")
_MOST = (1 << 32) - 2  # the number above means "as it is"


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

    def apply(self, fd, path=""):
        """On an open file or folder. First the owner: chown takes setuid bits away."""
        try:
            self._apply(fd)
        except PermissionError:
            raise _not_permitted(path) from None

    def _apply(self, fd):
        self.own(fd)
        found = os.fstat(fd)
        if self.mode:
            now = stat.S_IMODE(found.st_mode)
            wanted = mode_of(self.mode, now, stat.S_ISDIR(found.st_mode))
            if wanted != now:
                os.fchmod(fd, wanted)

    def fits_in_place(self, found):
        """Not for a file with other names; nor where its user, who may have it open to write, is
        to give it a setuid bit of somebody else."""
        mode = mode_of(self.mode, stat.S_IMODE(found.st_mode), False) if self.mode else 0
        trusted = found.st_uid in (0, os.geteuid())
        return found.st_nlink == 1 and (trusted or not mode & 0o6000)

    def own(self, fd):
        found = os.fstat(fd)
        owner = found.st_uid if self.owner is None else self.owner
        group = found.st_gid if self.group is None else self.group
        if (owner, group) != (found.st_uid, found.st_gid):
            try:
                os.fchown(fd, owner, group)
            except PermissionError:
                raise Failure(
                    "cannot change the owner: not permitted",
                    hint="sudo: true",
                    slug="not-permitted",
                ) from None

    def apply_new(self, fd, old, default):
        """On a file that is to take the place of `old` (a stat, or None)."""
        if old is not None:
            kept = Attributes({})
            kept.owner = old.st_uid if self.owner is None else self.owner
            kept.group = old.st_gid if self.group is None else self.group
            if (kept.owner, kept.group) != (os.geteuid(), os.getegid()):
                kept.own(fd)
            # as chown does: no setuid program of one user becomes that of another
            same = (kept.owner, kept.group) == (old.st_uid, old.st_gid)
            os.fchmod(fd, stat.S_IMODE(old.st_mode) & (0o7777 if same else 0o1777))
        else:
            os.fchmod(fd, default & ~_umask())
        self.apply(fd)


def require_owner(found, path):
    """For a check: only its owner and root may change a file's attributes."""
    if os.geteuid() not in (0, found.st_uid):
        raise _not_permitted(path)


def _not_permitted(path):
    what = "cannot change %s: it belongs to another user" % (path or "the attributes")
    return Failure(what, hint="sudo: true", slug="not-permitted")


def _umask():
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def mode_of(text, now, is_folder):
    """0644, 644, u+x, u=rw,go=, g=u, as chmod reads them. Raises Failure."""
    if _OCTAL.match(text):
        return int(text, 8)
    mode = now
    for part in text.split(","):
        found = _SYMBOLIC.match(part)
        if not found:
            raise Failure(
                "mode %r is neither octal nor symbolic" % text,
                hint="mode: '0644'",
                slug="not-a-file-mode",
            )
        for sign, what in _OPERATION.findall(found.group(2)):
            mode = _changed(mode, found.group(1), sign, what, is_folder)
    return mode


def _changed(mode, who, sign, what, is_folder):
    whom = "ugo" if not who or "a" in who else "".join(set(who))
    kept = 0 if who else _umask()
    bits = sum(_bits(mode, what, is_folder) << _SHIFTS[each] for each in whom) & ~kept
    if "s" in what:
        bits |= sum(_SPECIAL[each] for each in whom if each != "o")
    if "t" in what and "o" in whom:
        bits |= _SPECIAL["o"]
    if sign == "=":  # a folder's setuid and setgid bits stay unless they are named
        mode &= ~sum(7 << _SHIFTS[each] for each in whom)
        mode &= ~sum(_SPECIAL[each] for each in whom if each == "o" or "s" in what or not is_folder)
    return mode & ~bits if sign == "-" else mode | bits


def _bits(mode, what, is_folder):
    if what in ("u", "g", "o"):  # as they are for these
        return mode >> _SHIFTS[what] & 7
    runs = "x" in what or "X" in what and (is_folder or mode & 0o111)
    return ("r" in what) * 4 | ("w" in what) * 2 | bool(runs)


def user_id(text):
    return _id(text, "user", lambda: pwd.getpwnam(text).pw_uid)


def group_id(text):
    return _id(text, "group", lambda: grp.getgrnam(text).gr_gid)


def _id(text, what, look_up):
    if not text:
        return None
    if _NUMBER.match(text) and int(text) <= _MOST:
        return int(text)
    try:
        return look_up()
    except (KeyError, ValueError):
        raise Failure(
            "there is no %s %s on this host" % (what, text), slug="account-missing"
        ) from None


def describe(changes):
    return ", ".join("%s %s -> %s" % change for change in changes)
