"""A name that cannot be resolved: where it was written, which known name is like it, and which
ssh_config of the hostfile's project, or beside the hostfile, names it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from ipexctl.base.quoting import quote
from ipexctl.errors import InputError, Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.local import settings
from ipexctl.local.bounded_read import read_prefix
from ipexctl.local.user_dirs import state_dir
from ipexctl.machines.openssh.ssh_config import parse_config
from ipexctl.quick_dataclass import dataclass

HOSTS_FILE = Path("/etc/hosts")
_USUAL = ("ssh_config", "ssh-config", "config")
_MOST = 1000  # names of a folder that are looked at


@dataclass(frozen=True)
class KnownNames:
    """Hosts that ssh_config names, and those that the command is given."""

    configured: tuple[str, ...] = ()
    given: frozenset[str] = frozenset()


def unresolved(host: Host, hostname: str, why: str, names: KnownNames) -> Unreachable:
    place = f"{host.place.source}:{host.place.line}" if host.place else ""
    if host.name not in names.configured and (beside := _ssh_config_beside(host)):
        return Unreachable(
            f"{host.name}: the name {hostname} cannot be resolved",
            why=f"{place}: {why}" if place else why,
            hint=f"add -F {quote((str(beside),))}, which defines the hosts",
            slug="name-not-resolved",
        )
    others = [n for n in (*names.configured, *_names_here()) if n not in names.given]
    near = difflib.get_close_matches(hostname, others, 1, 0.7)
    where = f"in {place} " if place else ""
    hint = [f"{where}write {near[0]}, if you meant that host"] if near else []
    look = f"getent hosts {hostname}   # or give its address as HostName in ssh_config"
    return Unreachable(
        f"{host.name}: the name {hostname} cannot be resolved",
        why=f"{place}: {why}" if place else why,
        hint="\n".join([*hint, look]),
        slug="name-not-resolved",
    )


def _ssh_config_beside(host: Host) -> Path | None:
    """The ssh_config of the hostfile's project, one beside the hostfile (else in the current
    folder), or that of a lab, that has a line for it."""
    folder = Path(host.place.source).parent if host.place else Path()
    try:
        found = sorted(p.name for p in islice(folder.iterdir(), _MOST) if _is_named_so(p.name))
    except OSError:
        return None
    ordered = sorted(found, key=lambda name: name not in _USUAL)
    labs = sorted((state_dir() / "labs").glob("*/ssh_config"))
    configs = (*_of_project(folder), *(folder / name for name in ordered), *labs)
    return next((c for c in configs if host.name in _host_lines(c.absolute())), None)


def _of_project(folder: Path) -> tuple[Path, ...]:
    try:
        setting = settings.of_project(folder.absolute()).get("ssh_config")
    except InputError:
        return ()
    return (Path(setting.value).resolve(),) if setting else ()


def _is_named_so(name: str) -> bool:
    return name in _USUAL or ("ssh" in name and "known_hosts" not in name)


@cache
def _host_lines(path: Path) -> tuple[str, ...]:
    """Without what the file includes."""
    try:
        text = read_prefix(path).decode("utf-8", "replace")
        return parse_config([text]).names
    except (OSError, InputError):
        return ()


def _names_here() -> Iterator[str]:
    try:
        text = read_prefix(HOSTS_FILE).decode("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        yield from line.partition("#")[0].split()[1:]
