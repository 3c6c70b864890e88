"""What the last command found out about the hosts: @healthy and @last-failed of --limit.

One small file under XDG state, per hostfile. It is a convenience: when it can't be read or written,
nothing else is different.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ipexctl.inventory.hostfile_text import COMMAND_LINE
from ipexctl.inventory.inventory import Inventory
from ipexctl.local.atomic_file import write_atomic
from ipexctl.local.user_dirs import make_private, state_dir

HEALTHY, LAST_FAILED = "healthy", "last-failed"
KEEP = 100  # inventories
_MOST = 16 << 20  # bytes
_GOOD = frozenset({"ok", "warn", "changed", "skipped"})


def remember(hosts: Inventory, states: Mapping[str, str], command: str = "doctor") -> None:
    """`states`: host -> ok, warn, fail, failed, unreachable, changed or skipped."""
    path = state_file()
    everything = _load(path)
    try:
        key = _key(hosts)
    except OSError:  # the folder we are in is gone
        return
    entry = everything.pop(key, {})
    entry["last"] = dict(states)
    if command == "doctor":
        entry["doctor"] = {**_table(entry, "doctor"), **states}
    everything[key] = entry  # the newest stands last
    _store(path, dict(list(everything.items())[-KEEP:]))


def last_states(hosts: Inventory) -> dict[str, frozenset[str] | None]:
    """The hosts behind @healthy and @last-failed; None where no command has looked yet."""
    entry = _load(state_file()).get(_key(hosts), {})
    doctor, last = _table(entry, "doctor"), _table(entry, "last")
    return {
        HEALTHY: frozenset(h for h, s in doctor.items() if s in _GOOD) if doctor else None,
        LAST_FAILED: frozenset(h for h, s in last.items() if s not in _GOOD) if last else None,
    }


def state_file() -> Path:
    return state_dir() / "last.json"


def _key(hosts: Inventory) -> str:
    """The hostfile's absolute path; all hosts from the command line share one entry."""
    return hosts.source if hosts.source == COMMAND_LINE else str(Path(hosts.source).resolve())


def _table(entry: Mapping[str, Any], name: str) -> dict[str, str]:
    table = entry.get(name)
    return {str(k): str(v) for k, v in table.items()} if isinstance(table, dict) else {}


def _load(path: Path) -> dict[str, dict[str, Any]]:
    try:
        if path.stat().st_size > _MOST:
            return {}
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    entries = found.get("inventories") if isinstance(found, dict) else None
    if not isinstance(entries, dict):
        return {}
    return {key: entry for key, entry in entries.items() if isinstance(entry, dict)}


def _store(path: Path, entries: Mapping[str, Mapping[str, Any]]) -> None:
    with suppress(OSError):
        make_private(path.parent)
        write_atomic(path, json.dumps({"schema_version": 1, "inventories": entries}))
