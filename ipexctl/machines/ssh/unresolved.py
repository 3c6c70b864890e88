"""The error for a name that cannot be resolved: where it was written, and which ssh_config near the
hostfile defines it."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

from ipexctl.base.located_errors import nearest_word
from ipexctl.base.quoting import quote
from ipexctl.errors import InputError, Unreachable
from ipexctl.inventory.host_patterns import same_numbers
from ipexctl.inventory.hostfile_text import parse_hostfile
from ipexctl.inventory.inventory import Host
from ipexctl.local import settings
from ipexctl.local.bounded_read import read_prefix
from ipexctl.machines.openssh.ssh_config import parse_config

_USUAL = ("ssh_config", "ssh-config", "config")


def name_not_resolved(host: Host, hostname: str, why: str, configured: str | None) -> Unreachable:
    """Return the error. `configured`: as in SshSettings."""
    place = f"{host.place.source}:{host.place.line}: " if host.place else ""
    config_file = _ssh_config_beside(host) if configured is None else None
    near, place_in_file = _similar_name(host), ("", 0, 0)
    hint = f"correct {host.name}, or give its address as HostName in ssh_config"
    if host.place:
        place_in_file = (host.place.source, host.place.line, host.place.column)
    error = Unreachable(
        f"{host.name}: the name {hostname} cannot be resolved",
        why=f"{place}{why}",
        hint=hint,
        slug="name-not-resolved",
    )
    if configured and configured != host.name:
        error.hint = f"did you mean {configured!r}? Names in ssh_config are case-sensitive"
        near = configured
    if config_file:
        file = os.path.relpath(config_file) if Path.cwd() in config_file.parents else config_file
        error.hint = f"add -F {quote((str(config_file),))}, which defines the hosts"
        return error.with_meant("", f"--ssh-config={file}")
    return error.with_meant(host.name, near, at=place_in_file)


def _similar_name(host: Host) -> str:
    """Return the host of the project's host list or SSH configuration that was probably meant."""
    here = Path().absolute()
    try:
        listed = settings.of_project(here).get("hostfile")
    except InputError:
        listed = None
    file = Path(listed.value if listed else "hostfile")
    names = [name for config in _of_project(here) for name in _host_lines(config)]
    with suppress(InputError, OSError):
        names += [each.name for each in parse_hostfile(read_prefix(file).decode(), "").hosts]
    near = nearest_word(host.name, names)
    return near if near != host.name and same_numbers(host.name, near) else ""


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
