"""Find a project's own files from any folder in it. Files that others could have written are
ignored: they decide what runs, and where."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ipexctl.local.ownership import untrusted_reason

PROJECT_FILE = "ipexctl.toml"
Note = Callable[[str], None]


def ignore_note(text: str) -> None:
    """Drop the note, for callers whose command prints it elsewhere."""


def nearest_file(name: str, folder: Path, last: Path, note: Note = ignore_note) -> Path | None:
    """Return the file in the folder or above it, up to `last`."""
    for parent in (folder, *folder.parents):
        path = parent / name
        if os.path.isfile(path):
            why = untrusted_reason(path)
            if not why:
                return path
            note(f"ignoring {short_path(path)}: {why}")
        if parent == last:
            break
    return None


def project_file(folder: Path, note: Note = ignore_note) -> Path | None:
    """Return ipexctl.toml, from here up to the top of a Git checkout or the user's home."""
    around = (
        p for p in (folder, *folder.parents) if os.path.exists(p / ".git") or p == Path.home()
    )
    return nearest_file(PROJECT_FILE, folder, next(around, Path("/")), note)


def short_path(text: str | Path) -> str:
    """Return the path relative to the current folder if it is below it, as a user would type it."""
    try:
        return str(Path(text).relative_to(Path.cwd()))
    except (OSError, ValueError):  # the current folder may have been removed
        return str(text)
