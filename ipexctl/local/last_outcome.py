"""The results of the last command for each host: @healthy and @last-failed; and its host list."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ipexctl.inventory.hostfile_text import COMMAND_LINE
from ipexctl.inventory.inventory import Inventory
from ipexctl.local.memory import Memory

HEALTHY, LAST_FAILED = "healthy", "last-failed"
MEMORY, _SOURCES = Memory("last", 100), Memory("sources")  # by hostfile, by setting
_GOOD = frozenset({"ok", "warn", "changed", "skipped"})


def remember_states(hosts: Inventory, states: Mapping[str, str], command: str = "doctor") -> None:
    """Store the outcome. `states`: host -> ok, warn, fail, failed, unreachable, changed, ..."""
    try:
        key = _inventory_key(hosts)
    except OSError:  # the current folder was removed
        return
    entry = MEMORY.get_entry(key)
    entry["last"] = dict(states)
    if command == "doctor":
        entry["doctor"] = {**_states_table(entry, "doctor"), **states}
    MEMORY.add({key: entry})


def last_states(hosts: Inventory) -> dict[str, frozenset[str] | None]:
    """Return the hosts of @healthy and @last-failed; None if no command has run yet."""
    entry = MEMORY.get_entry(_inventory_key(hosts))
    doctor, last = _states_table(entry, "doctor"), _states_table(entry, "last")
    return {
        HEALTHY: frozenset(h for h, s in doctor.items() if s in _GOOD) if doctor else None,
        LAST_FAILED: frozenset(h for h, s in last.items() if s not in _GOOD) if last else None,
    }


def remember_sources(sources: Mapping[str, str]) -> bool:
    """Store where this command's hosts come from: setting -> its words, "" if it is not used.
    Return whether one is new here since the last command."""
    before = _SOURCES.load()
    placed = {key: text and f"{text} in {Path.cwd()}" for key, text in sources.items()}
    changed = {key: text for key, text in placed.items() if before.get(key, "") != text}
    if changed:
        _SOURCES.add(changed)
    return any(changed.values())


def _inventory_key(hosts: Inventory) -> str:
    """Return the hostfile's absolute path; hosts from the command line share one entry."""
    return hosts.source if hosts.source == COMMAND_LINE else str(Path(hosts.source).resolve())


def _states_table(entry: Mapping[str, Any], name: str) -> dict[str, str]:
    table = entry.get(name)
    return {str(k): str(v) for k, v in table.items()} if isinstance(table, dict) else {}
