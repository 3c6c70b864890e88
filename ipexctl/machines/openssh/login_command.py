"""Commands for a person that log in to a host as the hostfile says: its user, port and address.

All such commands come from here. `machines/suggested_commands.py` adds `-F` later.
"""

from __future__ import annotations

from ipexctl.base.quoting import quote
from ipexctl.inventory.inventory import Host


def ssh(host: Host, command: str = "", *, options: tuple[str, ...] = ()) -> str:
    """Return `ssh [-p PORT] [USER@]ADDRESS COMMAND`; for the controller only the command."""
    if host.local:
        return command
    words = ("ssh", *options, *_port(host), _account(host))
    return f"{quote(words)} {command}".rstrip()


def debug(host: Host) -> str:
    return ssh(host, "true", options=("-v",))


def copy_id(host: Host, user: str = "") -> str:
    """Return an ssh-copy-id command. `user`: used if the hostfile has none; "" leaves it to ssh."""
    name = host.user or user
    return quote(("ssh-copy-id", *_port(host), f"{name}@{where(host)}" if name else where(host)))


def where(host: Host) -> str:
    """Return the name or address to give to ssh."""
    return host.address or host.name


def _account(host: Host) -> str:
    return f"{host.user}@{where(host)}" if host.user else where(host)


def _port(host: Host) -> tuple[str, ...]:
    return ("-p", str(host.port)) if host.port else ()
