"""What a command remembers for later ones: entries by key, in a JSON file of this user.

It is a convenience: a file that cannot be read or written is as good as none.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ipexctl.common.files import write_atomic
from ipexctl.errors import NotHere
from ipexctl.local.bounded_read import read_file
from ipexctl.local.user_dirs import cache_dir, make_private, state_dir
from ipexctl.quick_dataclass import dataclass

_MOST = 256 << 20  # bytes


@dataclass(frozen=True)
class Memory:
    """The file NAME.json with the newest `keep` entries, in the state folder or in the cache."""

    name: str
    keep: int = 1000
    in_cache: bool = False

    @property
    def path(self) -> Path:
        return (cache_dir() if self.in_cache else state_dir()) / f"{self.name}.json"

    def load(self) -> dict[str, Any]:
        try:
            found = json.loads(read_file(self.path, _MOST))
        except (OSError, ValueError, RecursionError, RuntimeError, NotHere):
            return {}
        return found if isinstance(found, dict) else {}

    def entry(self, key: str) -> dict[str, Any]:
        """{} where there is none, or one of another form."""
        found = self.load().get(key)
        return found if isinstance(found, dict) else {}

    def add(self, entries: Mapping[str, Any]) -> None:
        with suppress(OSError, RuntimeError, NotHere):
            self.save(entries)

    def save(self, entries: Mapping[str, Any]) -> None:
        """Add them, or raise what keeps the file from being written. The newest stand last."""
        kept = {key: entry for key, entry in self.load().items() if key not in entries}
        self.write(dict(list((kept | dict(entries)).items())[-self.keep :]))

    def write(self, entries: Mapping[str, Any]) -> None:
        """Keep these entries and no others."""
        path = self.path
        make_private(path.parent)
        write_atomic(path, json.dumps(entries))


def is_newer(entry: Mapping[str, Any], seconds: float) -> bool:
    """Whether the entry was made, `at`, less than so long ago."""
    at = entry.get("at")
    return isinstance(at, int | float) and 0 <= time.time() - at < seconds
