"""Remember what earlier runs measured: rates of networks, and speeds of hosts."""

from __future__ import annotations

import time

from ipexctl.base.values import plain, positive_or_none
from ipexctl.local.memory import Memory, is_newer
from ipexctl.run.network.network_choice import Rates

# each of 50 sets of hosts
NETWORKS, SPEEDS, TUNED = Memory("networks", 50), Memory("speeds", 50), Memory("tuned", 50)
PART_KEPT = 3600.0  # seconds, if a network could not be measured: it may be repaired


def recall_rates(memory: Memory, mark: str) -> Rates | None:
    """Return the remembered rates; None: not measured, or no longer valid."""
    entry = memory.get_entry(mark)
    rates = entry.get("rates")
    if not isinstance(rates, dict):
        return None
    if entry.get("complete") is not True and not is_newer(entry, PART_KEPT):
        return None
    return {plain(name): rate for name, raw in rates.items() if (rate := positive_or_none(raw))}


def remember_rates(memory: Memory, mark: str, rates: Rates, *, complete: bool) -> None:
    entry = {"at": time.time(), "complete": complete, "rates": dict(rates)}
    memory.add({mark: entry})
