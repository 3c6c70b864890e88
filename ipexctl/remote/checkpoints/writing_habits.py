"""How the ranks of this host write checkpoints: which files belong to one, and how far apart they
come. From what was seen, it says whether the files that are there are all of them. Pure.

A round is one time that a checkpoint is written: each file changes in it once. A file that was
finished and changes again begins the next round.
"""

import collections
import posixpath

from ipexctl.common.checkpoint_names import checkpoint_series
from ipexctl.remote.checkpoints.checkpoint_rules import ENDS

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Container, Iterable

    from ipexctl.remote.checkpoints.checkpoint_files import FileInfo, Files

SLACK = 1.5  # of the longest gap between two files
LATE = 20.0  # seconds without a change, where files are missing that the last one had
SHORT_ROUNDS = 3  # in a row without a file, until that is not expected any more


class WritingHabits:
    def __init__(self, gap: float = 0.0) -> None:
        """`gap`: the longest one that earlier attempts have seen, in seconds."""
        self.gap = gap
        self.rounds = {}  # type: dict[str, Round]  # by key
        self.usual = {}  # type: dict[str, collections.Counter[str]]  # by series: files of a round
        self.short = {}  # type: dict[str, int]  # rounds in a row that had fewer files
        self.says_done = False  # the script says when a checkpoint is complete

    def expect(self, key: str, paths: "Iterable[str]") -> None:
        """Note the files of a complete checkpoint."""
        series = checkpoint_series(key)
        self.usual[series] = fold_numbers(paths)
        self.short[series] = 0

    def look(self, key: str, files: "Files", now: float) -> None:
        """Take what a look found: {path: size, time and inode} of files that the ranks wrote."""
        current = self.rounds.get(key)
        if current is None:
            current = self.rounds[key] = Round(now)
        changed = {path for path, info in files.items() if current.seen.get(path) != info}
        if changed & current.settled:
            self.end_round(key)
            current = self.rounds[key] = Round(now, current)
        elif changed and current.written and current.settled == current.written:
            self.gap = max(self.gap, now - current.changed)
        current.take(files, changed, now)

    def end_round(self, key: str) -> None:
        """Remember the files of this round, as the next one has begun."""
        series, written = checkpoint_series(key), self.rounds[key].written
        if not self.list_missing(key) or self.short.get(series, 0) + 1 >= SHORT_ROUNDS:
            self.expect(key, written)
        else:
            self.short[series] = self.short.get(series, 0) + 1

    def mark_done(self, key: str) -> None:
        """Note that the script has said of what is written that it is complete."""
        self.says_done = True
        self.rounds[key].done = True

    def forget_all_but(self, keys: "Container[str]") -> None:
        self.rounds = {key: self.rounds[key] for key in self.rounds if key in keys}

    def list_missing(self, key: str) -> "list[str]":
        """Return the files of the checkpoint before this one that this one lacks."""
        usual = self.usual.get(checkpoint_series(key), collections.Counter())
        return sorted(usual - fold_numbers(self.rounds[key].written))

    def why_incomplete(self, key: str, now: float) -> str:
        """Return why further files are expected; "" if the checkpoint is complete."""
        current, missing = self.rounds[key], self.list_missing(key)
        is_usual = checkpoint_series(key) in self.usual and not missing
        if current.done or has_known_format(current.written):
            return ""
        if self.says_done:
            return "neither ::checkpoint done nor a .done file has followed"
        needed = 0.0 if is_usual else max(self.gap * SLACK, LATE if missing else 0.0)
        if now - current.changed >= needed:
            return ""
        if missing:
            return "%s, which the one before had, is not written yet" % missing[0]
        return "files came %.0f s apart before: more may follow" % self.gap


class Round:
    def __init__(self, now: float, before: "Round | None" = None) -> None:
        # path -> as it was seen last
        self.seen: "dict[str, FileInfo]" = dict(before.seen) if before else {}
        self.written = set()  # type: set[str]  # paths that changed in this round
        self.settled = set()  # type: set[str]  # those that were equal in two looks since
        self.changed = now  # when a file was seen to change last
        self.done = False

    def take(self, files: "Files", changed: "set[str]", now: float) -> None:
        self.settled = (self.settled | self.written) & set(files) - changed
        self.written = (self.written | changed) & set(files)
        self.seen = dict(files)
        if changed:
            self.changed, self.done = now, False


def fold_numbers(paths: "Iterable[str]") -> "collections.Counter[str]":
    return collections.Counter(map(checkpoint_series, paths))


def has_known_format(paths: "Iterable[str]") -> bool:
    """Return whether the format of these files tells which file ends a checkpoint: the hub waits
    for that one (checkpoint_rules.list_missing_files)."""
    names = set(map(posixpath.basename, paths))
    return any(end in names or any(map(early.match, names)) for end, early in ENDS)
