"""What earlier runs measured, in this machine's state folder: `networks.json`, rates of networks,
and `speeds.json`, what hosts compute.

It only saves time: a file that cannot be read or written is as good as none.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ipexctl.base.values import plain
from ipexctl.errors import IpexctlError
from ipexctl.facts.reader import positive
from ipexctl.local.atomic_file import write_atomic
from ipexctl.local.user_dirs import make_private, state_dir
from ipexctl.run.network.network_choice import Rates

KEEP = 50  # sets of hosts
PART_KEPT = 3600.0  # seconds, where a network could not be measured: it may be repaired
_MOST = 1 << 20  # bytes


def rates_file(name: str = "networks.json") -> Path | None:
    """None where others can write the folder."""
    try:
        return state_dir() / name
    except (IpexctlError, RuntimeError):
        return None


def recall(path: Path | None, mark: str) -> Rates | None:
    """None: not measured, or no longer valid."""
    entry = _load(path).get(mark, {})
    rates = entry.get("rates")
    if not isinstance(rates, dict):
        return None
    if entry.get("complete") is not True:
        at = positive(entry.get("at")) or 0.0
        if not 0 <= time.time() - at < PART_KEPT:
            return None
    return {plain(name): rate for name, raw in rates.items() if (rate := positive(raw))}


def remember(path: Path | None, mark: str, rates: Rates, *, complete: bool) -> None:
    if path is None:
        return
    entries = {key: entry for key, entry in _load(path).items() if key != mark}
    entries[mark] = {"at": time.time(), "complete": complete, "rates": dict(rates)}
    kept = dict(list(entries.items())[-KEEP:])
    with suppress(OSError):
        make_private(path.parent)
        write_atomic(path, json.dumps({"schema_version": 1, "measured": kept}))


def _load(path: Path | None) -> Mapping[str, dict[str, Any]]:
    try:
        if path is None or path.stat().st_size > _MOST:
            return {}
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    entries = found.get("measured") if isinstance(found, dict) else None
    if not isinstance(entries, dict):
        return {}
    return {key: entry for key, entry in entries.items() if isinstance(entry, dict)}
