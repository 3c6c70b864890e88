"""The error for a name that cannot be resolved: where it was written, and which ssh_config near the
hostfile defines it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ipexctl.base.quoting import quote
from ipexctl.errors import InputError, Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.local import settings
from ipexctl.local.bounded_read import read_prefix
from ipexctl.machines.openssh.ssh_config import parse_config

_USUAL = ("ssh_config", "ssh-config", "config")


def name_not_resolved(host: Host, hostname: str, why: str, configured: str | None) -> Unreachable:
    """Return the error. `configured`: as in SshSettings."""
    place = f"{host.place.source}:{host.place.line}: " if host.place else ""
    config_file = _ssh_config_beside(host) if configured is None else None
    hint = f"getent hosts {hostname}   # or give its address as HostName in ssh_config"
    if configured and configured != host.name:
        hint = f"did you mean {configured!r}? Names in ssh_config are case-sensitive"
    if config_file:
        hint = f"add -F {quote((str(config_file),))}, which defines the hosts"
    return Unreachable(
        f"{host.name}: the name {hostname} cannot be resolved",
        why=f"{place}{why}",
        hint=hint,
        slug="name-not-resolved",
    )


def _ssh_config_beside(host: Host) -> Path | None:
    """Return an ssh_config with a line for the host: that of the hostfile's project, or one beside
    the hostfile (else in the current folder)."""
    folder = Path(host.place.source).parent if host.place else Path()
    configs = (*_of_project(folder), *(folder / name for name in _USUAL))
    return next((path for path in configs if host.name in _host_lines(path.absolute())), None)


def _of_project(folder: Path) -> tuple[Path, ...]:
    try:
        setting = settings.of_project(folder.absolute()).get("ssh_config")
    except InputError:
        return ()
    return (Path(setting.value).resolve(),) if setting else ()


@cache
def _host_lines(path: Path) -> tuple[str, ...]:
    """Return the hosts of the file, without included files."""
    try:
        text = read_prefix(path).decode("utf-8", "replace")
        return parse_config([text]).names
    except (OSError, InputError):
        return ()
