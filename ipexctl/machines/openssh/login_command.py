"""Commands for a person that log in to a host as the hostfile says: its user, port and address.

All such commands come from here. `machines/suggested_commands.py` adds `-F` later.
"""

from __future__ import annotations

from ipexctl.base.quoting import quote
from ipexctl.inventory.inventory import Host


def ssh_to(host: Host, command: str = "", *, options: tuple[str, ...] = ()) -> str:
    """Return `ssh [-p PORT] [USER@]ADDRESS COMMAND`; for the controller only the command."""
    if host.local:
        return command
    words = ("ssh", *options, *_port_option(host), _user_at_host(host))
    return f"{quote(words)} {command}".rstrip()


def ssh_debug_command(host: Host) -> str:
    return ssh_to(host, "true", options=("-v",))


def copy_id(host: Host, user: str = "", key: str = "") -> str:
    """Return an ssh-copy-id command. `user`: used if the hostfile has none; "" leaves it to ssh;
    so does an empty `key`, the file of a private key that has its .pub beside it."""
    name = host.user or user
    return quote(
        (
            "ssh-copy-id",
            *(("-i", key) if key else ()),
            *_port_option(host),
            f"{name}@{ssh_hostname(host)}" if name else ssh_hostname(host),
        )
    )


def ssh_hostname(host: Host) -> str:
    """Return the name or address to give to ssh."""
    return host.address or host.name


def _user_at_host(host: Host) -> str:
    return f"{host.user}@{ssh_hostname(host)}" if host.user else ssh_hostname(host)


def _port_option(host: Host) -> tuple[str, ...]:
    return ("-p", str(host.port)) if host.port else ()
