"""An SSH server that is made to keep this machine busy, or to fill its memory."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import paramiko
import pytest

from ipexctl.errors import Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.machines.ssh import link
from ipexctl.machines.ssh.paramiko_transport import SshTransport

GROUP_EXCHANGE = "diffie-hellman-group-exchange-sha256"
ENDLESS = 0xFFFFFFFF


@contextmanager
def serving(
    config: Path, talk: Callable[[paramiko.Transport], None], **attributes: Any
) -> Iterator[None]:
    """Host n of this ssh_config: Paramiko's server, which does this once keys are exchanged."""
    key = paramiko.ECDSAKey.generate()
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            wire, _ = server.accept()
            transport = paramiko.Transport(wire)
            for name, value in attributes.items():
                setattr(transport, name, value)
            transport.add_server_key(key)
            with suppress(paramiko.SSHException, EOFError, OSError):
                transport.start_server(server=paramiko.ServerInterface())
                talk(transport)
            over.wait(30)
            transport.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        known = config.with_name("known_hosts")
        known.write_text(f"n {key.get_name()} {key.get_base64()}\n")
        port = server.getsockname()[1]
        config.write_text(
            f"Host n\n HostName 127.0.0.1\n Port {port}\n HostKeyAlias n\n"
            f" UserKnownHostsFile {known}\n"
        )
        try:
            yield
        finally:
            over.set()
            thread.join(20)


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[Callable[[], SshTransport]]:
    opened: list[SshTransport] = []

    def make() -> SshTransport:
        opened.append(SshTransport((Host("n"),), tmp_path / "config"))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def send_list(transport: paramiko.Transport, kind: int, texts: int) -> None:
    message = paramiko.Message()
    message.add_byte(bytes([kind]))
    for _ in range(texts):
        message.add_string("")
    message.add_int(ENDLESS)
    transport._send_message(message)  # type: ignore[attr-defined]


def paramiko_threads() -> list[paramiko.Transport]:
    """Of clients: they say what they asked for."""
    found = [t for t in threading.enumerate() if isinstance(t, paramiko.Transport)]
    return [t for t in found if not t.server_mode and t.is_alive()]


@pytest.mark.parametrize(("kind", "texts"), [(7, 0), (60, 3)])
def test_a_list_without_end_ends_the_connection(tmp_path, ssh, kind: int, texts: int) -> None:
    """Before the login. Paramiko would go on for minutes, also when it is closed."""
    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "id"))
    with serving(tmp_path / "config", lambda transport: send_list(transport, kind, texts)):
        with (tmp_path / "config").open("a") as config:
            config.write(f" IdentityFile {tmp_path}/id\n")
        began = time.process_time()
        with pytest.raises(Unreachable) as caught:
            ssh().open(Host("n"), "true", 30)
        assert caught.value.slug in ("login-failed", "key-exchange-failed"), caught.value
        while paramiko_threads() and time.process_time() < began + 2:
            time.sleep(0.05)
        assert paramiko_threads() == []
        assert time.process_time() < began + 2  # not of the wall clock: others use this machine


class Primes:
    def __init__(self, bits: int) -> None:
        self.bits = bits

    def get_modulus(self, *_: int) -> tuple[int, int]:
        return 2, (1 << self.bits) - 1942289


@pytest.mark.parametrize(
    ("bits", "allowed", "why"),
    [(8192, 10, "a prime of a size"), (2048, -1, "keeps requesting new keys")],
)
def test_primes_of_the_servers_choice_take_no_seconds(
    tmp_path, ssh, monkeypatch, bits: int, allowed: int, why: str
) -> None:
    monkeypatch.setattr(link, "EXCHANGES", allowed, raising=False)
    own = {"_preferred_kex": (GROUP_EXCHANGE,), "_modulus_pack": Primes(bits)}
    with serving(tmp_path / "config", lambda _: None, **own):
        with pytest.raises(Unreachable) as told:
            ssh().host_key(Host("n"), 10)
        assert why in told.value.why


def test_a_sound_prime_of_the_servers_choice_is_taken(tmp_path, ssh) -> None:
    """So the refusals above are about what they say."""
    own = {"_preferred_kex": (GROUP_EXCHANGE,), "_modulus_pack": Primes(2048)}
    with serving(tmp_path / "config", lambda _: None, **own):
        assert ssh().host_key(Host("n"), 10).key_type.startswith("ecdsa")
