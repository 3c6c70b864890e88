"""Which bytecode the Python of each host had when it was last asked: what is sent depends on it.

One small file in the user's cache. When it can't be read or written, sources are sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib.util import MAGIC_NUMBER

from ipexctl.inventory.inventory import Host
from ipexctl.local.kept_entries import KeptEntries
from ipexctl.local.user_dirs import cache_dir

KEEP = 4096  # hosts
OURS = MAGIC_NUMBER.hex()


def _kept() -> KeptEntries:
    with suppress(RuntimeError):
        return KeptEntries(cache_dir() / "agents" / "bytecode.json", KEEP)
    return KeptEntries(None, KEEP)


def load() -> dict[str, str]:
    return {key: value for key, value in _kept().load().items() if isinstance(value, str)}


def store(seen: Mapping[str, str]) -> None:
    """Adds to what is there."""
    before = load()
    if any(before.get(key) != value for key, value in seen.items()):
        _kept().add(seen)


def key_of(host: Host, python: str = "") -> str:
    """How its Python is reached."""
    place = "here" if host.local else f"{host.user or ''}@{host.address or host.name}:{host.port}"
    return f"{place} {python or host.python}".strip()
