"""The command lines of the runs that were started here: only this machine's own words become a
line to paste, never those that a host sends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
    entry = _MEMORY.get_entry(run_id)
    options, script = entry.get("options"), entry.get("script")
    if not isinstance(options, list) or not isinstance(script, list):
        return None
    typed = Typed(tuple(map(str, options)), tuple(map(str, script)))
    return TypedRun(typed, Path(str(entry.get("folder"))), texts_of(entry.get("spares")))
