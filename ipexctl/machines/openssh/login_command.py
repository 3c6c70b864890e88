"""Commands for a person that log in to a host as the hostfile says: its user, port and address.

Nothing else makes them. `-F` comes later, from `machines/suggested_commands.py`.
"""

from __future__ import annotations

from ipexctl.base.quoting import quote
from ipexctl.inventory.inventory import Host


def ssh(host: Host, command: str = "", *, options: tuple[str, ...] = ()) -> str:
    """`ssh [-p PORT] [USER@]ADDRESS COMMAND`; on this machine the command alone."""
    if host.local:
        return command
    words = ("ssh", *options, *_port(host), _account(host))
    return f"{quote(words)} {command}".rstrip()


def debug(host: Host) -> str:
    return ssh(host, "true", options=("-v",))


def copy_id(host: Host, user: str = "") -> str:
    """`user`: the login user if the hostfile has none; "" leaves that to ssh."""
    name = host.user or user
    return quote(("ssh-copy-id", *_port(host), f"{name}@{where(host)}" if name else where(host)))


def where(host: Host) -> str:
    """What ssh is given as the host's name."""
    return host.address or host.name


def _account(host: Host) -> str:
    return f"{host.user}@{where(host)}" if host.user else where(host)


def _port(host: Host) -> tuple[str, ...]:
    return ("-p", str(host.port)) if host.port else ()
