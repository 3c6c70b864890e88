"""Entries that a command stores for later ones: by key, in a JSON file of this user.

It is a convenience: a file that cannot be read or written is treated as empty.
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

_MOST_BYTES = 256 << 20  # bytes


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
            document = json.loads(read_file(self.path, _MOST_BYTES))
        except (OSError, ValueError, RecursionError, RuntimeError, NotHere):
            return {}
        return document if isinstance(document, dict) else {}

    def get_entry(self, key: str) -> dict[str, Any]:
        """Return the entry; {} if there is none, or not an object."""
        entry = self.load().get(key)
        return entry if isinstance(entry, dict) else {}

    def add(self, entries: Mapping[str, Any]) -> None:
        with suppress(OSError, RuntimeError, NotHere):
            self.save(entries)

    def save(self, entries: Mapping[str, Any]) -> None:
        """Add entries, the newest last. Raises the error if the file cannot be written."""
        others = {key: entry for key, entry in self.load().items() if key not in entries}
        self.write(dict(list((others | dict(entries)).items())[-self.keep :]))

    def write(self, entries: Mapping[str, Any]) -> None:
        """Store these entries and no others."""
        path = self.path
        make_private(path.parent)
        write_atomic(path, json.dumps(entries))


def is_newer(entry: Mapping[str, Any], seconds: float) -> bool:
    """Decide whether the entry was made (`at`) within this number of seconds."""
    written = entry.get("at")
    return isinstance(written, int | float) and 0 <= time.time() - written < seconds
