"""Write an inventory as a hostfile or as an Ansible INI inventory.

A hostfile has neither groups nor variables for plays: notes list what is lost.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping

from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.quick_dataclass import dataclass

_FIELDS = ("address", "port", "user", "python", "slots", "nic", "root")
_ANSIBLE = {
    "address": "ansible_host",
    "port": "ansible_port",
    "user": "ansible_user",
    "python": "ansible_python_interpreter",
}


@dataclass(frozen=True)
class Rendered:
    text: str
    notes: tuple[str, ...] = ()


def render_inventory(inventory: Inventory, form: str) -> Rendered:
    """Render the inventory; `form` is one of FORMS."""
    return _FORMS[form](inventory)


def _render_hostfile(inventory: Inventory) -> Rendered:
    text = "".join(" ".join((h.name, *_host_words(h, {}))) + "\n" for h in inventory.hosts)
    fields = [("groups", "groups"), ("vars", "variables")]
    lost = [name for field, name in fields if any(getattr(h, field) for h in inventory.hosts)]
    notes = (f"lost in this format: {', '.join(lost)}; --to ansible keeps them",)
    return Rendered(text, notes if lost else ())


def _ansible_ini(inventory: Inventory) -> Rendered:
    lines = [
        " ".join((h.name, *_host_words(h, _ANSIBLE), *_play_variables(h))) for h in inventory.hosts
    ]
    for group, names in group_members(inventory).items():
        lines += ["", f"[{group}]", *names]
    return Rendered("\n".join(lines) + "\n")


_FORMS: dict[str, Callable[[Inventory], Rendered]] = {
    "ansible": _ansible_ini,
    "hostfile": _render_hostfile,
}
FORMS = tuple(_FORMS)


# --- pieces --------------------------------------------------------------------------------------


def group_members(inventory: Inventory) -> dict[str, tuple[str, ...]]:
    """Return group -> its hosts, in the order of the inventory."""
    names = sorted({group for host in inventory.hosts for group in host.groups})
    return {name: tuple(h.name for h in inventory.hosts if name in h.groups) for name in names}


def _host_words(host: Host, names: Mapping[str, str]) -> Iterator[str]:
    for field in _FIELDS:
        value = getattr(host, field)
        if value:
            yield f"{names.get(field, field)}={value}"
    if host.local:
        yield "ansible_connection=local"


def _play_variables(host: Host) -> Iterator[str]:
    """Yield the host's variables for plays, on a line of an INI inventory."""
    return (f"{name}={shlex.quote(value)}" for name, value in host.vars)
