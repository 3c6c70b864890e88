"""Match paths of result files against patterns; the host that lists files and the controller that
fetches them share these rules."""

import fnmatch
import re

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Sequence


def matches_path_pattern(path: "Sequence[str]", pattern: "Sequence[str]") -> bool:
    """Decide whether a glob matches a path; both are lists of names. `**` crosses folders, `*` does
    not; the glob of a folder matches everything in it."""
    if not pattern:
        return True
    if pattern[0] == "**":
        return any(matches_path_pattern(path[i:], pattern[1:]) for i in range(len(path) + 1))
    try:
        is_same = bool(path) and fnmatch.fnmatchcase(path[0], pattern[0])
    except re.error:  # Python before 3.11 raises it for a set such as [9-0]
        return False
    return is_same and matches_path_pattern(path[1:], pattern[1:])
