"""Choose the script of a folder that a suggested `ipexctl run` names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ipexctl.local.bounded_read import read_prefix

PLACEHOLDER = "SCRIPT"
_USUAL = ("train.py", "main.py")
_MOST_FILES = 50  # files that are read at most
_TRAINS = re.compile(
    rb"^[ \t]*(?:import|from)[ \t]+(?:torch|lightning|pytorch_lightning|transformers|accelerate)\b",
    re.MULTILINE,
)


def training_script(folder: Path) -> str:
    """Return the script that imports torch; of several the usual name, even if only
    what it imports does; else a placeholder."""
    scripts = list(_importing_torch(folder)) or [n for n in _USUAL if (folder / n).is_file()]
    usual = [name for name in _USUAL if name in scripts]
    if usual or len(scripts) == 1:
        return (usual or scripts)[0]
    return PLACEHOLDER


def _importing_torch(folder: Path) -> Iterator[str]:
    try:
        names = sorted(path.name for path in folder.glob("[!_.-]*.py"))
    except OSError:
        return
    for name in names[:_MOST_FILES]:
        try:
            text = read_prefix(folder / name)
        except OSError:
            continue
        if _TRAINS.search(text):
            yield name
