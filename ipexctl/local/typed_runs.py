"""The command lines of the runs that were started here: only this machine's own words become a
line to paste, never those that a host sends."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ipexctl.base.retry_command import without_secrets
from ipexctl.base.typed_command import Typed
from ipexctl.base.values import texts_of
from ipexctl.local.memory import Memory
from ipexctl.quick_dataclass import dataclass

_MEMORY = Memory("typed-runs", 200)


@dataclass(frozen=True)
class TypedRun:
    """What was typed, in which folder. `spares`: the hosts that --spares selected."""

    typed: Typed
    folder: Path
    spares: tuple[str, ...] = ()


def remember_typed_run(run_id: str, typed: Typed, spares: Sequence[str]) -> None:
    if not typed.options:
        return
    try:
        folder = str(Path.cwd())
    except OSError:  # it was removed
        return
    words = {"options": [*without_secrets(typed.options)], "script": [*typed.script]}
    _MEMORY.add({run_id: {**words, "folder": folder, "spares": [*spares]}})


def find_typed_run(run_id: str) -> TypedRun | None:
    """Return what was typed to start the run; None if that was not here."""
    return _read_entry(_MEMORY.get_entry(run_id))


def list_typed_runs(folder: Path) -> dict[str, TypedRun]:
    """Return the runs that were typed in this folder, by their IDs, and by their names the newest
    of each."""
    runs = dict[str, TypedRun]()
    for run_id, entry in _MEMORY.load().items():
        run = _read_entry(entry) if isinstance(entry, dict) else None
        if run and run.folder == folder:
            runs |= dict.fromkeys((run_id, _name_of(run.typed) or run_id), run)
    return runs


def _name_of(typed: Typed) -> str:
    pairs = zip(("", *typed.options), typed.options, strict=False)
    names = (word for before, word in pairs if before == "--name")
    attached = (w.removeprefix("--name=") for w in typed.options if w.startswith("--name="))
    return next(itertools.chain(names, attached), "")


def _read_entry(entry: Mapping[str, Any]) -> TypedRun | None:
    options, script = entry.get("options"), entry.get("script")
    if not isinstance(options, list) or not isinstance(script, list):
        return None
    typed = Typed(tuple(map(str, options)), tuple(map(str, script)))
    return TypedRun(typed, Path(str(entry.get("folder"))), texts_of(entry.get("spares")))
