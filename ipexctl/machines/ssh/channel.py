"""One command on a host, as a Channel of transport.py; and a TCP connection through a jump host,
used like a socket."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from ipexctl.errors import Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.machines.openssh import login_command
from ipexctl.machines.ssh.link import SshLink, seconds_left
from ipexctl.machines.wire.transport import (
    WRITE_PATIENCE,
    ChannelTimeout,
    check_progress,
    takes_nothing,
)

STDERR_KEPT = 1 << 16
MIN_RTT = 148  # offset of tcpi_min_rtt in Linux's struct tcp_info
CHUNK = 32_000  # fits one SSH packet


def open_exec_channel(
    host: Host, link: SshLink, command: bytes, deadline: float, *, all_stderr: bool = False
) -> Any:
    """Return a channel on which the command runs. `all_stderr`: none of it is dropped, so that the
    caller has to read it."""
    import paramiko

    try:
        channel: Any = link.transport.open_session(timeout=seconds_left(deadline))
        if all_stderr:
            limit_buffer(channel, "in_stderr_buffer")
        else:
            channel.in_stderr_buffer = _Tail(channel)  # before the command can write any
        limit_buffer(channel)
        if _request_exec(channel, command, deadline):
            return channel
        why = "sshd refused" if channel.closed else "sshd did not answer the request"
    except (paramiko.SSHException, EOFError, OSError) as e:
        why = str(e) or type(e).__name__
    raise Unreachable(
        f"{host.name}: logged in, but cannot run commands",
        why=why,
        hint=f"{login_command.ssh_to(host, 'true')}   # must end with exit code 0",
        slug="commands-refused",
    )


def _request_exec(channel: Any, command: bytes, deadline: float) -> bool:
    """Do what Channel.exec_command does, but with a deadline."""
    from paramiko.common import cMSG_CHANNEL_REQUEST
    from paramiko.message import Message

    message = Message()
    message.add_byte(cMSG_CHANNEL_REQUEST)
    message.add_int(channel.remote_chanid)
    message.add_string("exec")
    message.add_boolean(True)
    message.add_string(command)
    channel._event_pending()
    channel.transport._send_user_message(message)
    channel.event.wait(seconds_left(deadline))
    return bool(channel.event_ready)


def limit_buffer(channel: Any, name: str = "in_buffer") -> None:
    """Limit a buffer: Paramiko accepts data beyond the window that it has granted."""
    from paramiko import SSHException
    from paramiko.buffered_pipe import BufferedPipe

    class Bounded(BufferedPipe):  # type: ignore[type-arg]
        def feed(self, data: bytes) -> None:
            if len(self) + len(data) > 2 * window:
                raise SSHException("more data than its window allows")  # it ends the connection
            super().feed(data)

    window, old, pipe = channel.in_window_size, getattr(channel, name), Bounded()
    setattr(channel, name, pipe)
    if len(old):
        pipe.feed(old.empty())


class _Tail:
    """Reads a channel's stderr as it arrives and keeps its end, so that the window never fills."""

    def __init__(self, channel: Any) -> None:
        self.data = b""
        self._channel = channel
        self._owed = 0

    def feed(self, data: bytes) -> None:
        """Keep the end. Runs in Paramiko's thread, which must not wait for its own key exchange."""
        from paramiko.common import cMSG_CHANNEL_WINDOW_ADJUST
        from paramiko.message import Message

        self.data = (self.data + data)[-STDERR_KEPT:]
        self._owed += len(data)
        if self._channel.transport.clear_to_send.is_set():
            grant, self._owed = self._channel._check_add_window(self._owed), 0
            if grant:
                message = Message()
                message.add_byte(cMSG_CHANNEL_WINDOW_ADJUST)
                message.add_int(self._channel.remote_chanid)
                message.add_int(grant)
                self._channel.transport._send_user_message(message)

    def close(self) -> None:
        return None


class SshChannel:
    """A Channel (see transport.py) on one session."""

    def __init__(self, host: Host, link: SshLink, channel: Any) -> None:
        self._host, self._link, self._channel = host, link, channel
        self._ready = threading.Event()
        channel.in_buffer.set_event(self._ready)
        channel.settimeout(WRITE_PATIENCE)

    def write(self, data: bytes) -> None:
        from paramiko import SSHException

        began = time.monotonic()
        for start in range(0, len(data), CHUNK):
            chunk = data[start : start + CHUNK]
            while chunk:
                check_progress(began, start)
                try:
                    sent = self._channel.send(chunk)
                except TimeoutError:
                    raise takes_nothing() from None
                except (SSHException, EOFError) as e:
                    raise OSError(str(e)) from None
                if not sent:
                    raise OSError(f"{self._host.name} no longer reads")
                chunk = chunk[sent:]

    def read(self, size: int, timeout: float | None = None) -> bytes:
        if not self._ready.wait(timeout):
            raise ChannelTimeout
        return bytes(self._channel.recv(size))

    def stderr(self) -> bytes:
        return bytes(self._channel.in_stderr_buffer.data)

    def exit_status(self, timeout: float) -> int | None:
        self._channel.status_event.wait(timeout)
        status = self._channel.exit_status
        return None if status < 0 else int(status)

    def round_trip(self) -> float | None:
        with contextlib.suppress(AttributeError, OSError, struct.error):  # jump hosts
            info = self._link.wire.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, MIN_RTT + 4)
            return float(struct.unpack_from("=I", info, MIN_RTT)[0]) / 1e6
        return None

    def close(self) -> None:
        from paramiko import SSHException

        with contextlib.suppress(SSHException, OSError, EOFError):  # the connection was closed
            self._channel.close()
        self._link.close()


if TYPE_CHECKING:
    import paramiko


def forward_tcp(transport: paramiko.Transport, target: tuple[str, int], timeout: float) -> Any:
    """Open a channel that several threads may write to and close. Raises Paramiko's errors."""
    channel = transport.open_channel("direct-tcpip", target, ("127.0.0.1", 0), timeout=timeout)
    channel.transport = InOrder(transport)  # type: ignore[assignment]
    limit_buffer(channel)
    return channel


class InOrder:
    """Sends a channel's messages in order, and nothing after its CLOSE.

    Paramiko releases a channel's lock before it sends. So what one thread writes can follow the
    CLOSE of another, for a channel that is closed by then: sshd then ends the connection, and with
    it those of all hosts behind the jump host.
    """

    def __init__(self, transport: paramiko.Transport) -> None:
        self._transport: Any = transport
        self._waiting: deque[Any] = deque()
        self._lock = threading.Lock()
        self._sending = self._closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _send_user_message(self, message: Any) -> None:
        """Send a message; while another thread is sending, leave it to that thread."""
        from paramiko.common import cMSG_CHANNEL_CLOSE

        with self._lock:
            if self._closed:
                return
            self._closed = message.asbytes()[:1] == cMSG_CHANNEL_CLOSE
            self._waiting.append(message)
            if self._sending:
                return
            self._sending = True
        while True:
            with self._lock:
                if not self._waiting:
                    self._sending = False
                    return
                message = self._waiting.popleft()
            try:
                self._transport._send_user_message(message)
            except BaseException:
                with self._lock:
                    self._sending = False
                raise
