"""Failures of operations, for users to read."""

import errno
import os

from ipexctl.common.sizes import format_bytes

FULL = (errno.ENOSPC, errno.EDQUOT)


class Failure(Exception):
    """A failure that the controller shows: what failed, why, and what to type next."""

    def __init__(self, what: str, why: str = "", hint: str = "", slug: str = "host-failed") -> None:
        Exception.__init__(self, what)
        self.what, self.why, self.hint, self.slug = what, why, hint, slug


def failure_document(failure: "Failure") -> "dict[str, str]":
    return {"what": failure.what, "why": failure.why, "hint": failure.hint, "slug": failure.slug}


def disk_full(root: str, size: int) -> "Failure":
    disk = os.statvfs(root)
    takes = "this takes %s, " % format_bytes(size) if size else ""
    free = format_bytes(disk.f_bavail * disk.f_frsize)
    return Failure(
        "no space left on the disk of %s" % root,
        "%s%s are free now; something else filled the disk meanwhile" % (takes, free),
        "free some space, then run the same command again; or --root FOLDER on a bigger disk",
        slug="no-space",
    )


def unexpected_document(e: BaseException, root: object) -> "dict[str, str]":
    """Return the document of an exception no operation handles. `root`: the request's, or None.

    Any write below the root can find the disk full, so that is explained here, for all of them.
    """
    place = os.path.expanduser(root) if isinstance(root, str) else ""
    if isinstance(e, OSError) and e.errno in FULL and os.path.isdir(place):
        return failure_document(disk_full(place, 0))
    return bug_document()


def bug_document() -> "dict[str, str]":
    """Return the document of the current exception: a bug in ipexctl."""
    import traceback

    text = traceback.format_exc()
    return {"what": text.strip().splitlines()[-1], "why": text, "hint": "", "slug": "agent-bug"}
