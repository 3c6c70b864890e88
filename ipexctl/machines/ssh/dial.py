"""The connection to a host's SSH port, without any SSH library."""

from __future__ import annotations

import contextlib
import errno
import random
import re
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ipexctl.errors import Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.local.environment import environment
from ipexctl.machines.openssh import login_command
from ipexctl.machines.openssh.ssh_config import SshSettings
from ipexctl.machines.ssh.unresolved import name_not_resolved
from ipexctl.quick_dataclass import dataclass

T = TypeVar("T")
BANNER_LIMIT = 1 << 16
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.5
CUT_OFF = "ssh-timeout"  # ssh still ran at the deadline
SEE_SSHD = "systemctl status ssh sshd; ss -tln"
_FIRST_LINE = re.compile(rb"^SSH-[^\n]*\n", re.MULTILINE)
_FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}
_NO_ANSWER = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.EHOSTDOWN)

# The kernel notices when a host disappears: idle connections are probed
# after 15 s and given up 15 s later, sent data may stay unconfirmed for 30 s.
_KEEPALIVE = (
    ("TCP_KEEPIDLE", 15),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 30_000),
)


class Dropped(Exception):
    """The host closed the connection before the SSH handshake: worth another try."""

    def __init__(self, host: Host, text: str) -> None:
        super().__init__(text)
        self.error = Unreachable(
            f"{host.name}: the host closed the connection before the SSH handshake",
            why=text or "sshd has too many logins at once (MaxStartups), or refuses this address",
            hint=login_command.ssh_debug_command(host),
            slug="connection-dropped",
        )


def retry_dropped(attempt: Callable[[], T], deadline: float) -> T:
    """Retry until the deadline: sshd drops some of many simultaneous connections (MaxStartups)."""
    pause = FIRST_PAUSE
    dropped: Unreachable | None = None
    while True:
        try:
            return attempt()
        except Dropped as e:
            dropped = e.error
        except Unreachable as e:
            if dropped and e.slug == CUT_OFF:
                raise dropped from None
            raise
        delay = pause * random.uniform(0.5, 1.5)
        if time.monotonic() + delay >= deadline:
            raise dropped from None
        time.sleep(delay)
        pause = min(pause * 2, LONGEST_PAUSE)


@dataclass
class Wire:
    """The socket for Paramiko. It keeps what the host sends before it speaks SSH."""

    sock: Any  # a socket, or a channel through a jump host
    finish: Callable[[], None] = lambda: None
    said: bytes = b""

    def __post_init__(self) -> None:
        self.recv: Callable[[int], bytes] = self._recv_first
        self.send: Callable[[bytes], int] = self.sock.send
        self.settimeout: Callable[[float | None], None] = self.sock.settimeout

    @property
    def speaks_ssh(self) -> bool:
        return bool(_FIRST_LINE.search(self.said))

    def close(self) -> None:
        """Wake any thread that waits in recv, then close."""
        for step in (lambda: self.sock.shutdown(socket.SHUT_RDWR), self.sock.close):
            with contextlib.suppress(Exception):  # a jump host's channel may raise anything
                step()
        self.finish()

    @property
    def _closed(self) -> bool:  # Paramiko asks sockets for this
        return bool(self.sock._closed)

    def _recv_first(self, size: int) -> bytes:
        data = b"" if len(self.said) > BANNER_LIMIT else bytes(self.sock.recv(size))
        self.said += data
        if self.speaks_ssh:
            self.recv = self.sock.recv
        return data


def dial_host(answer: SshSettings, deadline: float) -> Wire:
    """Open a TCP connection to the host's SSH port."""
    limit = deadline
    if answer.connect_timeout:
        limit = min(deadline, time.monotonic() + answer.connect_timeout)
    addresses = _resolve_name(answer)
    for i, (family, address) in enumerate(addresses):
        timeout = max(0.05, limit - time.monotonic()) / (len(addresses) - i)
        try:
            return Wire(_connect_socket(family, address, timeout))
        except OSError as e:
            error = e
    raise _explain_os_error(answer, str(addresses[-1][1][0]), error)


def dial_command(command: str) -> Wire:
    """Run a ProxyCommand of the user's own ssh_config in their shell, as OpenSSH does."""
    ours, theirs = socket.socketpair()
    shell = environment().get("SHELL") or "/bin/sh"
    with theirs:
        process = subprocess.Popen(
            [shell, "-c", f"exec {command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    return Wire(ours, finish=process.terminate)  # `ours` is closed by then, which ends it, too


def no_ssh(answer: SshSettings, wire: Wire, *, timed_out: bool) -> Exception:
    """Return the error for a host whose first lines are not SSH: Dropped, or Unreachable."""
    if not timed_out:
        return _other_words(answer, wire.said)
    behind = ", or its ProxyCommand cannot reach it" if answer.proxy_command else ""
    return Unreachable(
        f"{answer.name}: port {answer.port} sends no SSH banner",
        why=f"another service listens there, or sshd hangs or is overloaded{behind}",
        hint=login_command.ssh_debug_command(answer.given),
        slug="no-ssh-banner",
    )


def _other_words(answer: SshSettings, data: bytes) -> Exception:
    text = data.decode("utf-8", "replace").strip()
    if text.startswith("Not allowed"):
        return Unreachable(
            f"{answer.name}: sshd temporarily refuses connections from this machine",
            why=f"it said: {text[:200]} (PerSourcePenalties, after failed logins)",
            hint="wait a minute, and fix the logins that fail",
            slug="ssh-penalty",
        )
    if not text or text.startswith("Exceeded"):
        return Dropped(answer.given, text)
    return Unreachable(
        f"{answer.name}: port {answer.port} does not speak SSH",
        why=f"it said: {text[:200]}",
        slug="not-ssh",
    )


def _connect_socket(family: int, address: tuple[Any, ...], timeout: float) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        sock.connect(address)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    except BaseException:
        sock.close()
        raise
    return sock


def _resolve_name(answer: SshSettings) -> list[tuple[int, tuple[Any, ...]]]:
    family = _FAMILIES.get(answer.address_family, socket.AF_UNSPEC)
    try:
        records = socket.getaddrinfo(answer.hostname, answer.port, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as e:
        why = getattr(e, "strerror", None) or str(e)
        raise name_not_resolved(answer.given, answer.hostname, why, answer.configured) from None
    return [(family, address) for family, _, _, _, address in records]


def _explain_os_error(answer: SshSettings, address: str, error: OSError) -> Unreachable:
    where = f"{address} port {answer.port}"
    if isinstance(error, ConnectionRefusedError):
        return Unreachable(
            f"{answer.name}: {where} refused the connection",
            why="sshd is not running or is listening on another port, or a firewall is rejecting "
            "the connection",
            hint=f"on {answer.name}: {SEE_SSHD}",
            slug="connection-refused",
        )
    if isinstance(error, TimeoutError) or error.errno in _NO_ANSWER:
        return Unreachable(
            f"{answer.name}: no answer from {where}",
            why="the host is down, the address is wrong, or a firewall drops the packets",
            hint=f"ping -c 3 {address}",
            slug="no-answer",
        )
    return Unreachable(
        f"{answer.name}: cannot connect to {where}",
        why=str(error),
        hint=f"ip route get {address}",
        slug="no-route",
    )
