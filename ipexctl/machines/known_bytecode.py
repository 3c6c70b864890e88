"""Which bytecode the Python of each host had when it was last asked: what is sent depends on it.

One small file in the user's cache. When it can't be read or written, sources are sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from ipexctl.inventory.inventory import Host
from ipexctl.local.atomic_file import write_atomic
from ipexctl.local.user_dirs import cache_dir, make_private

KEEP = 4096  # hosts
OURS = MAGIC_NUMBER.hex()


def _file() -> Path:
    return cache_dir() / "agents" / "bytecode.json"


def load() -> dict[str, str]:
    with suppress(OSError, ValueError, RuntimeError):
        found = json.loads(_file().read_text("utf-8"))
        if isinstance(found, dict):
            return {key: value for key, value in found.items() if isinstance(value, str)}
    return {}


def store(seen: Mapping[str, str]) -> None:
    """Adds to what is there; the newest stands last."""
    with suppress(OSError, RuntimeError):
        before = load()
        if all(before.get(key) == value for key, value in seen.items()):
            return
        known = {key: value for key, value in before.items() if key not in seen} | dict(seen)
        path = _file()
        make_private(path.parent)
        write_atomic(path, json.dumps(dict(list(known.items())[-KEEP:])))


def key_of(host: Host, python: str = "") -> str:
    """How its Python is reached."""
    place = "here" if host.local else f"{host.user or ''}@{host.address or host.name}:{host.port}"
    return f"{place} {python or host.python}".strip()
