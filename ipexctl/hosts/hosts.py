"""hosts: who a hostfile names, and the same for other programs."""

from __future__ import annotations

from typing import Any

from ipexctl.errors import unknown_value
from ipexctl.inventory.hostfile_formats import FORMS, Rendered, members, render
from ipexctl.inventory.inventory import Inventory
from ipexctl.machines.target import Target, inventory

SCHEMA = 1
__all__ = ["convert", "document", "inventory"]


def convert(target: Target, form: str) -> Rendered:
    """Raises InputError for a format that isn't known, before any file is read."""
    if form not in FORMS:
        raise unknown_value("--to", form, FORMS)
    return render(inventory(target), form)


def document(hosts: Inventory) -> dict[str, Any]:
    """As one JSON document; what isn't given is "" or 0."""
    return {
        "schema_version": SCHEMA,
        "command": "hosts",
        "source": hosts.source,
        "hosts": [
            {
                "name": h.name,
                "address": h.address,
                "port": h.port,
                "user": h.user,
                "slots": h.slots,
                "python": h.python,
                "nic": h.nic,
                "root": h.root,
                "local": h.local,
                "groups": list(h.groups),
                "place": str(h.place) if h.place else "",
            }
            for h in hosts.hosts
        ],
        "groups": {group: list(names) for group, names in members(hosts).items()},
        "notes": list(hosts.notes),
    }
