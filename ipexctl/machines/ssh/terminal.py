"""A terminal on a host: Fabric runs the command and handles the terminal, on our connection.

Fabric's own connect method (which accepts any host key) and its configuration files are not used.
"""

from __future__ import annotations

import contextlib
import sys
import termios
import tty
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

from ipexctl.inventory.inventory import Host
from ipexctl.local.environment import environment
from ipexctl.machines.ssh.link import SshLink
from ipexctl.machines.ssh.stdio import NO_STATUS, connection_lost


def run_in_terminal(host: Host, link: SshLink, command: str) -> int:
    """Run `command` in a terminal on the host, shown in ours, and return its exit code."""
    from invoke.exceptions import ThreadException

    connection = fabric_connection(link)
    try:
        with _raw_terminal(sys.stdin):
            result = connection.run(command, pty=True, warn=True, hide=False, in_stream=sys.stdin)
    except (ThreadException, OSError, EOFError):
        raise connection_lost(host) from None
    if not link.transport.is_active():
        raise connection_lost(host)
    return int(result.exited) if result.exited >= 0 else NO_STATUS


def fabric_connection(link: SshLink) -> Any:
    """Return a fabric.Connection on a link whose host key we checked and where we logged in."""
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
        """A connection that uses our transport and never makes one."""

        def open(self) -> None:
            if not self.is_connected:
                raise connection_lost(Host(str(self.original_host)))

        def sftp(self) -> Any:
            if getattr(self, "_sftp", None) is None:
                self._sftp: Any = self.transport.open_sftp_client()
            return self._sftp

        def create_session(self) -> Any:
            """Set TERM, since Fabric itself would call every terminal a vt100."""
            session = super().create_session()
            session.get_pty = partial(session.get_pty, environment().get("TERM") or "vt100")
            execute = session.exec_command
            # bytes that are not UTF-8 arrived as surrogates, and are sent unchanged
            session.exec_command = lambda line: execute(line.encode("utf-8", "surrogateescape"))
            return session

    return Connected


@contextlib.contextmanager
def _raw_terminal(stream: Any) -> Iterator[None]:
    """Pass every key to the host, including Ctrl-C, Ctrl-Z and Ctrl-S."""
    saved = termios.tcgetattr(stream)
    tty.setraw(stream)
    try:
        yield
    finally:
        termios.tcsetattr(stream, termios.TCSADRAIN, saved)
