"""One connection: Paramiko's transport, without its logging, alarms and unlimited sizes."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ipexctl.errors import Unreachable
from ipexctl.machines.openssh import login_command
from ipexctl.machines.openssh.ssh_config import SshSettings
from ipexctl.machines.ssh.dial import Dropped, Wire, no_ssh
from ipexctl.quick_dataclass import dataclass

if TYPE_CHECKING:
    import paramiko

WEAK = ("3des", "md5")
LARGEST_PACKET = 1 << 18  # as OpenSSH
IDLE_WAKEUP = 10.0  # seconds after which an idle connection's thread wakes up


@dataclass(eq=False)
class SshLink:
    """A Paramiko transport, and the socket under it."""

    answer: SshSettings
    transport: paramiko.Transport
    wire: Wire
    on_close: Callable[[SshLink], None]

    def exchange_keys(self, deadline: float) -> None:
        """Exchange keys, which sends nothing about the user. Raises Dropped or Unreachable."""
        done = threading.Event()
        self.transport.banner_timeout = seconds_left(deadline) + IDLE_WAKEUP  # `done` is set first
        self.transport.start_client(event=done)
        if done.wait(seconds_left(deadline)) and self.transport.is_active():
            return
        error = self.transport.get_exception()
        self.close()
        if not self.wire.speaks_ssh:
            raise no_ssh(self.answer, self.wire, timed_out=error is None)
        raise _no_exchange(self.answer, error)

    def host_key(self) -> tuple[str, bytes]:
        """Return type and blob of the key that the host has proved to own in the key exchange."""
        key: Any = self.transport.get_remote_server_key()
        return str(key.get_name()), bytes(key.asbytes())

    def close(self) -> None:
        """Close at once; Paramiko's thread sees the end of the socket and cleans up."""
        self.wire.close()
        self.on_close(self)


def seconds_left(deadline: float) -> float:
    """Return the seconds left, at least 0.05: data that has already arrived is still read."""
    return max(0.05, deadline - time.monotonic())


def load_paramiko() -> None:
    """Import Paramiko without Invoke, which it needs for one line of an ssh_config and which takes
    half of its start: our configurations are read by ssh itself."""
    if "paramiko" not in sys.modules and "invoke" not in sys.modules:
        sys.modules["invoke"] = None  # type: ignore[assignment]  # an import fails, and it goes on
        try:
            import paramiko  # noqa: F401
        finally:
            del sys.modules["invoke"]
    _silence_paramiko()


def _silence_paramiko() -> None:
    """Silence Paramiko, which logs tracebacks of ordinary network errors; we report those."""
    logger = logging.getLogger("paramiko")
    logger.propagate = False
    logger.setLevel(logging.CRITICAL + 1)


@cache
def _threadless_packetizer() -> Any:
    import paramiko.packet

    class Packetizer(paramiko.packet.Packetizer):
        """A Packetizer without Paramiko's alarm thread per connection: we have deadlines."""

        def start_handshake(self, timeout: float) -> None:
            return None

        def complete_handshake(self) -> None:
            return None

        def read_all(self, n: int, check_rekey: bool = False) -> bytes:
            """Read a packet, unless the other side announced an excessive length."""
            if n > LARGEST_PACKET:
                raise paramiko.SSHException(f"a packet of {n:,} bytes")
            return bytes(super().read_all(n, check_rekey))

    return Packetizer


@cache
def _transport_class() -> Any:
    import paramiko

    class Transport(paramiko.Transport):
        @property
        def preferred_keys(self) -> tuple[str, ...]:
            """Return Paramiko's types of host keys without its host certificates."""
            return self._preferred_keys  # type: ignore[attr-defined,no-any-return]

    return Transport


def new_transport(
    answer: SshSettings, wire: Wire, known_types: Sequence[str]
) -> paramiko.Transport:
    """Return a transport. `known_types`: types of the host's known keys, to ask for one of them."""
    transport: Any = _transport_class()(wire, packetizer_class=_threadless_packetizer())
    wire.settimeout(IDLE_WAKEUP)
    for _, name, allowed in _configured_algorithms(answer):
        setattr(transport, name, _usable_algorithms(getattr(transport, name), allowed))
    transport._preferred_keys = host_key_algorithms(transport._preferred_keys, known_types)
    transport._preferred_ciphers = _preferred_first(
        transport._preferred_ciphers, ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
    )
    return transport  # type: ignore[no-any-return]


def unsupported_setting(answer: SshSettings) -> str:
    """Return the ssh_config setting for which Paramiko has no allowed algorithm, else ""."""
    import paramiko

    return next(
        (
            word
            for word, name, allowed in _configured_algorithms(answer)
            if not _usable_algorithms(getattr(paramiko.Transport, name), allowed)
        ),
        "",
    )


def _configured_algorithms(answer: SshSettings) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Return the settings of ssh_config, Paramiko's names for them, and their values."""
    return (
        ("Ciphers", "_preferred_ciphers", answer.ciphers),
        ("MACs", "_preferred_macs", answer.macs),
        ("KexAlgorithms", "_preferred_kex", answer.kex),
    )


def _usable_algorithms(offered: Sequence[str], allowed: Sequence[str]) -> tuple[str, ...]:
    """Return the offered algorithms that ssh_config allows, without broken ones."""
    sound = [a for a in offered if not any(weak in a for weak in WEAK)]
    return tuple(a for a in sound if {a, a.removesuffix("@libssh.org")} & {*(allowed or sound)})


def host_key_algorithms(offered: Sequence[str], known_types: Sequence[str]) -> tuple[str, ...]:
    """Put known key types first, so that the host shows a key we can judge (as OpenSSH does)."""
    types = {"rsa-sha2" if name == "ssh-rsa" else name for name in known_types}
    return _preferred_first(offered, [a for a in offered if a in types or a[:8] in types])


def _preferred_first(algorithms: Sequence[str], preferred: Sequence[str]) -> tuple[str, ...]:
    """Reorder only: an algorithm that the library does not offer is never requested."""
    front = [name for name in preferred if name in algorithms]
    return (*front, *(name for name in algorithms if name not in front))


def _no_exchange(answer: SshSettings, error: Exception | None) -> Exception:
    import paramiko

    if error is None:
        return Unreachable(
            f"{answer.name}: the SSH key exchange did not finish in time",
            why="the host is overloaded, or a firewall lets only small packets pass (MTU)",
            hint=login_command.ssh_debug_command(answer.given),
            slug="key-exchange-timeout",
        )
    if isinstance(error, EOFError | ConnectionError):
        return Dropped(answer.given, str(error))
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        return Unreachable(
            f"{answer.name}: the host and ipexctl have no SSH algorithm in common",
            why=str(error),
            hint="--transport openssh   # the ssh program; or update the host's OpenSSH",
            slug="ssh-algorithms-differ",
        )
    return Unreachable(
        f"{answer.name}: the SSH key exchange failed", why=str(error), slug="key-exchange-failed"
    )
