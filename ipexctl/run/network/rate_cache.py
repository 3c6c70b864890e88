"""What earlier runs measured, in this machine's state folder: `networks.json`, rates of networks,
and `speeds.json`, what hosts compute."""

from __future__ import annotations

import time
from pathlib import Path

from ipexctl.base.values import plain
from ipexctl.errors import IpexctlError
from ipexctl.facts.reader import positive
from ipexctl.local.kept_entries import KeptEntries
from ipexctl.local.user_dirs import state_dir
from ipexctl.run.network.network_choice import Rates

KEEP = 50  # sets of hosts
PART_KEPT = 3600.0  # seconds, where a network could not be measured: it may be repaired


def rates_file(name: str = "networks.json") -> Path | None:
    """None where others can write the folder."""
    try:
        return state_dir() / name
    except (IpexctlError, RuntimeError):
        return None


def recall(path: Path | None, mark: str) -> Rates | None:
    """None: not measured, or no longer valid."""
    entry = KeptEntries(path, KEEP).entry(mark)
    rates = entry.get("rates")
    if not isinstance(rates, dict):
        return None
    if entry.get("complete") is not True:
        at = positive(entry.get("at")) or 0.0
        if not 0 <= time.time() - at < PART_KEPT:
            return None
    return {plain(name): rate for name, raw in rates.items() if (rate := positive(raw))}


def remember(path: Path | None, mark: str, rates: Rates, *, complete: bool) -> None:
    entry = {"at": time.time(), "complete": complete, "rates": dict(rates)}
    KeptEntries(path, KEEP).add({mark: entry})
