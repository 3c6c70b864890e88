"""Hashes of the user's files, kept between runs: files that were not touched are not read again."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

from ipexctl.errors import NotHere
from ipexctl.local.memory import Memory

# ns: a younger file may change once more within one tick of its clock
SETTLED = 2 * 10**9

Stamp = tuple[int, int, int, int]


def file_stamp(info: os.stat_result) -> Stamp:
    """Return a value that changes with every write: no program can set a file's ctime."""
    return info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino


class Hashes:
    """The hashes of one folder's files, by path and stamp."""

    def __init__(self, folder: Path) -> None:
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:24]
        self.memory = Memory(f"hashes/{name}", in_cache=True)
        self._known = self.memory.load()  # path -> [*stamp, sha256]
        self._fresh: dict[str, list[int | str]] = {}
        self._began = time.time_ns()

    def known_hash(self, path: str, stamp: Stamp) -> str:
        """Return the hash, "" if the file must be read."""
        row = self._known.get(path)
        if not isinstance(row, list) or row[:-1] != [*stamp]:
            return ""
        self._fresh[path] = row
        return str(row[-1])

    def add(self, path: str, stamp: Stamp, sha256: str) -> None:
        if max(stamp[1], stamp[2]) < self._began - SETTLED:
            self._fresh[path] = [*stamp, sha256]

    def save(self) -> None:
        """Store the hashes that were asked for; errors are ignored, since a cache may be lost."""
        if self._fresh != self._known:
            with suppress(OSError, RuntimeError, NotHere):
                self.memory.write(self._fresh)
