"""Which stack is meant where no option says it: by the lock, else by the project's code."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ipexctl.core.run import mpi
from ipexctl.core.stack import project_imports
from ipexctl.core.stack.lock_file import Lock
from ipexctl.core.stack.version_table import GLOO, Request
from ipexctl.errors import InputError
from ipexctl.local import bounded_read
from ipexctl.local.shipped_tables import table

# Somebody may call this in a home folder: then a part is looked at.
FILES, ENTRIES, DEPTH, LARGEST = 500, 20_000, 6, 512 << 10
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})


def decide(wanted: Request, lock: Lock | None, folder: Path) -> Request:
    """The request with what names its rows, and why. Options win over the lock, it over code."""
    word = mpi.word_of(lock.mpi) if lock else mpi.INTEL.name
    wanted = replace(wanted, mpi=wanted.mpi or word)
    if wanted.names_a_stack:
        return replace(wanted, because=_said(wanted))
    if lock:
        return _as_locked(wanted, lock)
    meant = project_imports.implied_request(scan(folder))
    return replace(meant, mpi=wanted.mpi, python=wanted.python)


def _said(wanted: Request) -> str:
    options = ("torch", "ipex", "backend", "stack")
    said = (f"--{name} {getattr(wanted, name)}" for name in options if getattr(wanted, name))
    return f"asked for with {' '.join(said)}"


def _as_locked(wanted: Request, lock: Lock) -> Request:
    gloo = lock.row.endswith(GLOO)
    if lock.row.removesuffix(GLOO) not in {row.name for row in table()}:
        raise InputError(
            f"ipexctl.lock names the row {lock.row}, which is not in the version table",
            hint="rm ipexctl.lock   # chooses afresh; `ipexctl stacks` shows the table",
        )
    backend = "gloo" if gloo else ""
    return replace(wanted, row=lock.row, backend=backend, because="ipexctl.lock names it")


def scan(folder: Path) -> dict[str, frozenset[str]]:
    """What the Python files below the folder import, those at the top first."""
    found: dict[str, frozenset[str]] = {}
    for path in _python_files(folder):
        if len(found) == FILES:
            break
        try:
            text = bounded_read.read_prefix(path, LARGEST).decode("utf-8", "replace")
        except OSError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's code, which is not ours to judge
            found[str(path.relative_to(folder))] = project_imports.modules(text)
    return found


def _python_files(folder: Path) -> Iterator[Path]:
    """Level by level, in the order of names. Links to folders are not followed."""
    level, seen = [folder], 0
    for _ in range(DEPTH):
        below: list[Path] = []
        for place in level:
            entries = _entries(place)
            seen += len(entries)
            if seen > ENTRIES:
                return
            if any(e.name == "pyvenv.cfg" for e in entries):
                continue
            yield from (Path(e.path) for e in entries if e.name.endswith(".py") and _file(e))
            below += [Path(e.path) for e in entries if _project(e)]
        level = below


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda e: e.name)
    except OSError:
        return []


def _file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _project(entry: os.DirEntry[str]) -> bool:
    hidden = entry.name.startswith(".") or entry.name in _SKIPPED
    return not hidden and entry.is_dir(follow_symlinks=False)
