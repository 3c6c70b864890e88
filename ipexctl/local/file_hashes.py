"""Hashes of the user's files, kept between runs: what has not been touched is not read again."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ipexctl.common.files import write_atomic
from ipexctl.local.user_dirs import cache_dir, make_private

CHUNK = 1 << 20
SETTLED = (
    2 * 10**9
)  # ns: a file younger than this may change once more within one tick of its clock

Stamp = tuple[int, int, int, int]


def stamp(info: os.stat_result) -> Stamp:
    """Changes with every write to the file: no program can set a file's ctime."""
    return info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino


class Hashes:
    """The hashes of one folder's files, by path and stamp."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._known = _read(file) if file else {}
        self._fresh: dict[str, tuple[Stamp, str]] = {}
        self._began = time.time_ns()

    def known(self, path: str, stamp: Stamp) -> str:
        """The hash, "" if the file must be read."""
        found = self._known.get(path)
        if not found or found[0] != stamp:
            return ""
        self._fresh[path] = found
        return found[1]

    def add(self, path: str, stamp: Stamp, sha256: str) -> None:
        if max(stamp[1], stamp[2]) < self._began - SETTLED:
            self._fresh[path] = (stamp, sha256)

    def save(self) -> None:
        """Keep the hashes that were asked for; errors are ignored, since a cache may be lost."""
        if self._file is None or self._fresh == self._known:
            return
        rows = {path: [*stamp, sha] for path, (stamp, sha) in self._fresh.items()}
        with suppress(OSError):
            make_private(self._file.parent)
            write_atomic(self._file, json.dumps(rows))


def hashes_of(folder: Path, environ: Mapping[str, str]) -> Hashes:
    """Kept in the XDG cache folder, or not at all if there is no home folder."""
    with suppress(RuntimeError):
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:24]
        return Hashes(cache_dir(environ) / "hashes" / f"{name}.json")
    return Hashes(None)


def _read(path: Path) -> dict[str, tuple[Stamp, str]]:
    try:
        rows = json.loads(path.read_bytes())
        return {
            name: ((int(a), int(b), int(c), int(d)), str(sha))
            for name, (a, b, c, d, sha) in rows.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
