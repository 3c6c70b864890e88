"""Patterns of the files that a run has left, as the host that lists them and the controller that
takes them read these."""

import fnmatch
import re

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Sequence


def matches(path: "Sequence[str]", pattern: "Sequence[str]") -> bool:
    """Whether a glob stands for a path; both are lists of names. `**` crosses folders, `*` does
    not; a folder means all that is in it."""
    if not pattern:
        return True
    if pattern[0] == "**":
        return any(matches(path[i:], pattern[1:]) for i in range(len(path) + 1))
    try:
        is_same = bool(path) and fnmatch.fnmatchcase(path[0], pattern[0])
    except re.error:  # before Python 3.11 for a set such as [9-0]
        return False
    return is_same and matches(path[1:], pattern[1:])
