"""What is decided about checkpoints from values alone: who copies, what is complete, what stays.

A checkpoint is a file or a folder, named by its path below the folder where ranks start. What one
host has of it is a part; most have one, written by rank 0.
"""

import fnmatch
import posixpath
import re

from ipexctl.common.checkpoint_names import kinds_of
from ipexctl.common.checkpoint_reports import Manifest
from ipexctl.common.copy_messages import PartFound

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Collection

KEPT = 2  # complete checkpoints of a run
LAID_OUT = 0  # the number of one from which an attempt began; those of its own are higher
# what copies leave of a disk: a part of its size, within these bounds (a large one is not full yet)
LEFT_SHARE, LEFT_LEAST, LEFT_MOST = 0.05, 1 << 30, 5 << 30
# of torch.distributed.checkpoint, Trainer and Accelerate: the file that ends a checkpoint, and what
# is written early or on every host
ENDS = (
    (".metadata", re.compile(r"__[0-9]+_[0-9]+\.distcp\Z")),
    ("trainer_state.json", re.compile(r"(training_args\.bin|rng_state(_[0-9]+)?\.pth)\Z")),
    ("random_states_0.pkl", re.compile(r"(random_states_[0-9]+\.pkl|optimizer(_[0-9]+)?\.bin)\Z")),
)


def matches_checkpoint_glob(name: str, pattern: str) -> bool:
    """Match a name as glob does: ** is any number of folders, and only a dot in a pattern matches
    one in front of a name."""
    patterns = [part for part in pattern.split("/") if part not in ("", ".")]
    return match_parts(name.split("/"), patterns)


def match_parts(names: "list[str]", patterns: "list[str]") -> bool:
    if not (names and patterns):
        return not names and set(patterns) <= {"**"}
    fits = patterns[0].startswith(".") or not names[0].startswith(".")
    if patterns[0] == "**":
        return match_parts(names, patterns[1:]) or (fits and match_parts(names[1:], patterns))
    return (
        fits and fnmatch.fnmatchcase(names[0], patterns[0]) and match_parts(names[1:], patterns[1:])
    )


def choose_copy_host(
    hosts: "list[str]",
    host: str,
    unfit: "Collection[str]" = (),
    groups: "dict[str, list[str]] | None" = None,
) -> "str | None":
    """Choose the host that keeps a second copy of what this host writes: the next fit host, in
    another group if possible (a rack may lose its power). Return None if there is no other host."""
    start = hosts.index(host) + 1
    candidates = (hosts[start:] + hosts[:start])[:-1]
    groups_of = {name: set((groups or {}).get(name, ())) for name in hosts}
    shared = set.intersection(*groups_of.values())

    def worth(name: str) -> "tuple[bool, bool]":
        return name not in unfit, not groups_of[name] & groups_of[host] - shared

    return max(candidates, key=worth, default=None)


def find_member(path: str, patterns: "list[str]") -> str:
    """Return the name that the patterns match and that has this file, the shortest; else ""."""
    parts = path.split("/")
    names = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    matched = (n for n in names if any(matches_checkpoint_glob(n, glob) for glob in patterns))
    return next(matched, "")


def list_missing_files(parts: "list[PartFound]") -> "list[str]":
    """Return the files that the parts together need and lack."""
    names = {name for part in parts for name in part.names}
    needed = {name for part in parts for name in part.needs}
    for name in names:
        folder, base = posixpath.split(name)
        ends = [end for end, early in ENDS if early.match(base)]
        needed.update(posixpath.join(folder, end) for end in ends)
    return sorted(needed - names)


def choose_kept(manifests: "dict[int, Manifest]") -> "set[int]":
    """Return the numbers of the complete checkpoints that stay: the last ones that have a step in
    their names, and the last ones of plain names."""
    kept = set()  # type: set[int]
    for plain in (True, False):
        numbers = [
            n for n, row in manifests.items() if plain in kinds_of(row.members or [row.name])
        ]
        kept.update(sorted(numbers)[-KEPT:])
    return kept


def has_room(free: int, total: int, size: int) -> bool:
    return free - size >= must_stay_free(total)


def must_stay_free(total: int) -> int:
    return min(max(LEFT_LEAST, int(LEFT_SHARE * total)), LEFT_MOST)
