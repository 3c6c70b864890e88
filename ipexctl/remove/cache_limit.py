"""Keeping the cache of downloaded files small: those used longest ago go first."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from ipexctl.local.user_dirs import cache_dir
from ipexctl.remove.prune_limits import Amount

IN_USE = 3600  # seconds: an install may be about to send a file that is younger


def prune_cache(most: int, *, check: bool) -> tuple[Amount, ...]:
    """What goes, or would go, so that at most `most` bytes are left."""
    found: list[tuple[float, int, Path]] = []
    for path in (cache_dir() / "blobs").glob("*/**/*"):
        with suppress(OSError):
            info = path.lstat()
            if path.is_file() and not path.is_symlink():
                found.append((max(info.st_mtime, info.st_atime), info.st_size, path))
    total = count = size = 0
    for used, length, path in sorted(found, reverse=True):
        total += length
        if total > most and used < time.time() - IN_USE:
            count, size = count + 1, size + length
            if not check:
                with suppress(OSError):
                    path.unlink()
    return (Amount("cache", count, size),) if count else ()
