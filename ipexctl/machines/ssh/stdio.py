"""A command on the host, connected to our stdin, stdout and stderr byte by byte.

Paramiko's thread decrypts what the host sends and never waits. One thread for each of stdout and
stderr writes what has come.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ipexctl.errors import IpexctlError, Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.machines.openssh import login_command
from ipexctl.machines.ssh.channel import CHUNK, open_exec_channel
from ipexctl.machines.ssh.link import SshLink

STDIN, STDOUT, STDERR = range(3)
NO_STATUS = 255  # the connection ended before the command did; ssh uses the same code
BROKEN_PIPE = 128 + signal.SIGPIPE
WRITE_SIZE = 1 << 21
A = TypeVar("A")
R = TypeVar("R")


def run_command(host: Host, link: SshLink, command: str, deadline: float) -> int:
    """Run `command` with our stdin, stdout and stderr, and return its exit code."""
    # bytes of an argument that are not UTF-8 arrived as surrogates
    line = command.encode("utf-8", "surrogateescape")
    channel = open_exec_channel(host, link, line, deadline, all_stderr=True)
    copies = (_Copy(channel, channel.recv, STDOUT), _Copy(channel, channel.recv_stderr, STDERR))
    stdin = threading.Thread(target=_send_stdin, args=(channel,), daemon=True)
    try:
        for thread in (*copies, stdin):
            thread.start()
        for copy in copies:
            copy.join()
        channel.status_event.wait()
    except KeyboardInterrupt:
        request = threading.Thread(target=_send_interrupt, args=(channel,), daemon=True)
        request.start()
        request.join(1.0)  # a connection that accepts no more data must not block us
        raise
    for copy in copies:
        if copy.error:
            return _closed_stream(copy.stream, copy.error)
    if not channel.eof_received and not link.transport.is_active():
        raise connection_lost(host)
    return int(channel.exit_status) if channel.exit_status >= 0 else NO_STATUS


def _send_interrupt(channel: Any) -> None:
    """End the command as well on Ctrl-C if sshd passes signals on (OpenSSH 7.9 and newer)."""
    from paramiko import SSHException
    from paramiko.common import cMSG_CHANNEL_REQUEST
    from paramiko.message import Message

    message = Message()
    message.add_byte(cMSG_CHANNEL_REQUEST)
    message.add_int(channel.remote_chanid)
    message.add_string("signal")
    message.add_boolean(False)  # no reply wanted
    message.add_string("INT")
    with contextlib.suppress(SSHException, EOFError, OSError):
        channel.transport._send_user_message(message)


def connection_lost(host: Host) -> Unreachable:
    hint = login_command.ssh_to(host, "uptime")
    return Unreachable(f"{host.name}: the connection was lost", hint=hint, slug="connection-lost")


class _Copy(threading.Thread):
    """Copies what the host sends to one of our streams; `error` is why the stream refused it."""

    def __init__(self, channel: Any, receive: Callable[[int], bytes], stream: int) -> None:
        super().__init__(daemon=True)
        self._channel, self._receive, self.stream = channel, receive, stream
        self.error: OSError | None = None

    def run(self) -> None:
        from paramiko import SSHException

        with contextlib.suppress(SSHException, EOFError):  # the connection was lost
            while data := self._receive(WRITE_SIZE):
                try:
                    _write_all(self.stream, data)
                except OSError as e:
                    self.error = e
                    self._channel.close()  # ends the other copy, too
                    return


def _write_all(stream: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[_retry_when_ready(stream, select.POLLOUT, os.write, view) :]


def _send_stdin(channel: Any) -> None:
    """Send stdin until it ends, which the command sees, or until the command reads no more."""
    from paramiko import SSHException

    try:
        while data := _read_stdin():
            while data:
                sent = channel.send(data)
                if not sent:
                    return
                data = data[sent:]
        channel.shutdown_write()
    except (SSHException, EOFError, OSError):
        return  # the main thread finds the reason


def _read_stdin() -> bytes:
    try:
        return _retry_when_ready(STDIN, select.POLLIN, os.read, CHUNK)
    except OSError:  # it cannot be read: a directory, a terminal that hung up
        return b""


def _retry_when_ready(stream: int, event: int, call: Callable[[int, A], R], argument: A) -> R:
    """Call again until the stream is ready: another program may have made it non-blocking."""
    while True:
        try:
            return call(stream, argument)
        except BlockingIOError:
            ready = select.poll()
            ready.register(stream, event)
            ready.poll()


def _closed_stream(stream: int, error: OSError) -> int:
    if error.errno != errno.EPIPE:
        name = "stdout" if stream == STDOUT else "stderr"
        raise IpexctlError(f"{name}: {error.strerror}", slug="stream-failed")
    return BROKEN_PIPE
