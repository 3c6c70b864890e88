"""A person at a host: Fabric runs the command and looks after the terminal, on our connection.

Fabric's own way to connect (any host key is fine) and its configuration files are out of reach.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

from ipexctl.core.model import Host
from ipexctl.errors import Unreachable
from ipexctl.hosts.ssh.link import Link

NO_STATUS = 255  # the connection ended it; ssh says the same
NOBODY_READS = 128 + signal.SIGPIPE  # as of a command in a pipe


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
    _heed_signals(link.transport)
    try:
        with _raw(sys.stdin) if pty else contextlib.nullcontext():
            done = connection.run(command, pty=pty, warn=True, hide=False, in_stream=sys.stdin)
    except ThreadException as e:
        trouble = _of_our_streams(e)
        if not trouble:
            raise _lost(host.name) from None
        if trouble.errno != errno.EPIPE:
            raise trouble from None
        # what is left in the buffer must not be tried again when the interpreter ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    except (OSError, EOFError):
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
            execute = session.exec_command
            # bytes that are no UTF-8 came as surrogates, and go as they came
            session.exec_command = lambda line: execute(line.encode("utf-8", "surrogateescape"))
            return session

    return Connected


def _of_our_streams(e: Any) -> OSError | None:
    """What kept Fabric's threads from writing to our stdout or stderr."""
    for failure in e.exceptions:
        writes = failure.kwargs["target"].__name__ in ("handle_stdout", "handle_stderr")
        if writes and isinstance(failure.value, OSError) and failure.value.errno:
            return failure.value
    return None


def _heed_signals(transport: Any) -> None:
    """Paramiko passes over the signal that ended a command: its exit code is then as a shell's."""
    from paramiko.common import MSG_CHANNEL_REQUEST

    handlers = transport._channel_handler_table
    others = handlers[MSG_CHANNEL_REQUEST]

    def request(channel: Any, message: Any) -> None:
        start = message.packet.tell()
        if message.get_text() != "exit-signal":
            message.packet.seek(start)
            others(channel, message)
            return
        message.get_boolean()  # whether it wants an answer: never
        channel.exit_status = _signalled(message.get_text())
        channel.status_event.set()

    transport._channel_handler_table = {**handlers, MSG_CHANNEL_REQUEST: request}


def _signalled(name: str) -> int:
    found = getattr(signal, f"SIG{name}", None)
    return 128 + found if isinstance(found, signal.Signals) else NO_STATUS


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
