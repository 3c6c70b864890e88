"""A fabric.Connection for Python programs, on a connection of ours.

Fabric's own way to connect (any host key is fine) and its configuration files are out of reach.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ipexctl.inventory.inventory import Host
from ipexctl.machines.ssh.link import Link
from ipexctl.machines.ssh.stdio import connection_lost


def fabric_connection(link: Link) -> Any:
    """A fabric.Connection on a link whose host key was judged, and whose login was done, by us."""
    from fabric import Config

    answer = link.answer
    settings = Config(lazy=True)  # reads no file
    connection = _connection_class()(
        answer.hostname, answer.user, answer.port, config=settings, forward_agent=False
    )
    connection.transport = link.transport
    return connection


@cache
def _connection_class() -> Any:
    from fabric import Connection

    class Connected(Connection):  # type: ignore[misc]
        """It has our transport and never makes one."""

        def open(self) -> None:
            if not self.is_connected:
                raise connection_lost(Host(str(self.original_host)))

        def sftp(self) -> Any:
            if getattr(self, "_sftp", None) is None:
                self._sftp: Any = self.transport.open_sftp_client()
            return self._sftp

    return Connected
