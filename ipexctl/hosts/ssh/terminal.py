"""A person at a host: Fabric runs the command and looks after the terminal, on our connection.

Fabric's own way to connect (any host key is fine) and its configuration files are out of reach.
"""

from __future__ import annotations

import contextlib
import os
import sys
import termios
import tty
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

from ipexctl.core.model import Host
from ipexctl.errors import Unreachable
from ipexctl.hosts.ssh.link import Link

NO_STATUS = 255  # the connection or a signal ended it; ssh says the same


def attend(host: Host, link: Link, command: str, *, pty: bool) -> int:
    """Runs `command` with our stdin, stdout and stderr. Its exit code."""
    from fabric import Config
    from invoke.exceptions import ThreadException

    answer = link.answer
    settings = Config(lazy=True)  # reads no file
    connection = _connection_class()(
        answer.hostname, answer.user, answer.port, config=settings, forward_agent=False
    )
    connection.transport = link.transport
    try:
        with _raw(sys.stdin) if pty else contextlib.nullcontext():
            done = connection.run(command, pty=pty, warn=True, hide=False, in_stream=sys.stdin)
    except (ThreadException, OSError, EOFError):
        raise _lost(host.name) from None
    if not link.transport.is_active():
        raise _lost(host.name)
    return int(done.exited) if done.exited >= 0 else NO_STATUS


@cache
def _connection_class() -> Any:
    from fabric import Connection

    class Connected(Connection):  # type: ignore[misc]
        """It has our transport and never makes one."""

        def open(self) -> None:
            if not self.is_connected:
                raise _lost(str(self.original_host))

        def create_session(self) -> Any:
            """Fabric itself would call every terminal a vt100."""
            session = super().create_session()
            session.get_pty = partial(session.get_pty, os.environ.get("TERM") or "vt100")
            return session

    return Connected


@contextlib.contextmanager
def _raw(stream: Any) -> Iterator[None]:
    """Every key goes to the host: Ctrl-C, Ctrl-Z and Ctrl-S are its own."""
    before = termios.tcgetattr(stream)
    tty.setraw(stream)
    try:
        yield
    finally:
        termios.tcsetattr(stream, termios.TCSADRAIN, before)


def _lost(name: str) -> Unreachable:
    return Unreachable(f"{name}: the connection is gone", hint=f"ping {name}")
