"""A name that cannot be resolved: where it was written, and which known name is like it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path

from ipexctl.core.model import Host
from ipexctl.errors import Unreachable
from ipexctl.local.bounded_read import read_prefix

HOSTS_FILE = Path("/etc/hosts")


def unresolved(host: Host, hostname: str, why: str, names: Iterable[str]) -> Unreachable:
    """`names`: those of ssh_config."""
    place = f"{host.place.source}:{host.place.line}" if host.place else ""
    near = difflib.get_close_matches(hostname, [*names, *_names_here()], 1, 0.7)
    where = f"in {place} " if place else ""
    hint = [f"{where}write {near[0]}, if that was meant"] if near else []
    look = f"getent hosts {hostname}   # or give its address as HostName in ssh_config"
    return Unreachable(
        f"{host.name}: the name {hostname} cannot be resolved",
        why=f"{place}: {why}" if place else why,
        hint="\n".join([*hint, look]),
    )


def _names_here() -> Iterator[str]:
    try:
        text = read_prefix(HOSTS_FILE).decode("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        yield from line.partition("#")[0].split()[1:]
