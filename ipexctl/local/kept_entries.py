"""Entries by key in a JSON file of this machine: what one command remembers for the next.

It is a convenience: a file that cannot be read or written is as good as none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ipexctl.common.files import write_atomic
from ipexctl.local.bounded_read import read_file
from ipexctl.local.user_dirs import make_private

_MOST = 16 << 20  # bytes


class KeptEntries:
    """`path` None: there is no place for the file. `keep`: the number of entries, the newest."""

    def __init__(self, path: Path | None, keep: int) -> None:
        self._path, self._keep = path, keep

    def load(self) -> dict[str, Any]:
        try:
            found = json.loads(read_file(self._path, _MOST)) if self._path else {}
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def entry(self, key: str) -> dict[str, Any]:
        """{} where there is none, or one of another form."""
        found = self.load().get(key)
        return found if isinstance(found, dict) else {}

    def add(self, entries: Mapping[str, Any]) -> None:
        """The newest stand last."""
        if self._path is None:
            return
        kept = {key: entry for key, entry in self.load().items() if key not in entries}
        newest = list((kept | dict(entries)).items())[-self._keep :]
        with suppress(OSError):
            make_private(self._path.parent)
            write_atomic(self._path, json.dumps(dict(newest)))
