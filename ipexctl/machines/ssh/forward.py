"""A TCP connection that a jump host makes for us, to be used like a socket."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from ipexctl.machines.ssh.channel import bound

if TYPE_CHECKING:
    import paramiko


def forward(transport: paramiko.Transport, target: tuple[str, int], timeout: float) -> Any:
    """A channel that several threads may write to and close. Raises what Paramiko does."""
    channel = transport.open_channel("direct-tcpip", target, ("127.0.0.1", 0), timeout=timeout)
    channel.transport = InOrder(transport)  # type: ignore[assignment]
    bound(channel)
    return channel


class InOrder:
    """What one channel sends, and nothing after its CLOSE.

    Paramiko lets go of a channel's lock before it sends. So what one thread writes can come behind
    the CLOSE of another, for a channel that is gone by then: over that sshd ends the connection,
    and with it all hosts behind the jump host.
    """

    def __init__(self, transport: paramiko.Transport) -> None:
        self._transport: Any = transport
        self._waiting: deque[Any] = deque()
        self._lock = threading.Lock()
        self._sending = self._closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _send_user_message(self, message: Any) -> None:
        """Whoever comes while another thread sends leaves the message to that one."""
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
