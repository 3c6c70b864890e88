"""Which file or folder a script did not find, from its last words."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

_MISSING = re.compile(
    r"No such file or directory: (['\"])(?P<python>.+)\1"
    r"|unable to open file: name = '(?P<hdf5>[^']+)', errno = 2"
    r"|[Cc]heck that the config directory '(?P<hydra>[^']+)' exists"
)


def missing_path(lines: Iterable[str]) -> str:
    """As the script named it, "" if nothing says so. The last one ended the script."""
    found = [match for line in lines if (match := _MISSING.search(line))]
    return next(filter(None, reversed(found[-1].groupdict().values()))) if found else ""


def in_project(path: str, start: str, cwd: str) -> str:
    """Its path below the project's top, or from there up; "" if it is elsewhere on the host.

    Ranks start in `start` on the host, which is the folder `cwd` of the project.
    """
    top = start.removesuffix(f"/{cwd}") if cwd else start
    full = posixpath.normpath(posixpath.join(start, path))
    if not path or (posixpath.isabs(path) and not full.startswith(posixpath.dirname(top) + "/")):
        return ""
    return posixpath.relpath(full, top)
