"""A private sshd on 127.0.0.1, with its own keys, log and ssh_config. Ends with the test."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ipexctl.inventory.inventory import Host
from ipexctl.machines.ssh.paramiko_transport import SshTransport
from tests.processes import listens

CARELESS = "Host *\n StrictHostKeyChecking no\n UpdateHostKeys yes\n CheckHostIP yes\n"
SSHD = shutil.which("sshd") or "/usr/sbin/sshd"


@dataclass
class Sshd:
    """One sshd; `config` is what a user would write into ssh_config to reach it."""

    folder: Path
    port: int
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def host_key(self) -> str:
        """type and base64"""
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])

    @property
    def known_line(self) -> str:
        return f"[127.0.0.1]:{self.port} {self.host_key}\n"

    def config(self, *names: str, known: str | None = None, more: str = "") -> Path:
        """An ssh_config for these host names; by default the right key is known."""
        known_hosts = self.folder / "known_hosts"
        known_hosts.write_text(self.known_line if known is None else known)
        path = self.folder / "ssh_config"
        path.write_text(
            f"Host {' '.join(names)}\n"
            f"  HostName 127.0.0.1\n  Port {self.port}\n  User {getpass.getuser()}\n"
            f"  IdentityFile {self.folder}/id\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {known_hosts}\n  GlobalKnownHostsFile none\n{more}"
        )
        return path

    def start(self) -> Sshd:
        (self.folder / "sshd_config").write_text(
            "\n".join(
                (
                    *self.options,  # first, since sshd takes the first value it reads
                    f"Port {self.port}",
                    "ListenAddress 127.0.0.1",
                    f"HostKey {self.folder}/host_key",
                    f"AuthorizedKeysFile {self.folder}/authorized_keys",
                    "StrictModes no",
                    "UsePAM no",
                    "PasswordAuthentication no",
                    "PermitRootLogin yes",
                    "PidFile none",
                    "LogLevel VERBOSE",
                    "SetEnv SHLVL=3",  # bash then leaves the developer's own .bashrc alone
                )
            )
            + "\n"
        )
        self.process = subprocess.Popen(
            [SSHD, "-D", "-f", f"{self.folder}/sshd_config", "-E", f"{self.folder}/log"]
        )
        deadline = time.monotonic() + 20
        while "Server listening" not in (self.log if (self.folder / "log").exists() else ""):
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, "sshd did not start"
            time.sleep(0.02)
        return self

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait(10)


def keygen(path: Path, *more: str) -> None:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ipexctl test", "-f", str(path)]
    subprocess.run([*argv, *more], check=True, stdin=subprocess.DEVNULL)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


MakeSshd = Callable[..., Sshd]


@pytest.fixture
def make_sshd(tmp_path: Path) -> Iterator[MakeSshd]:
    """make_sshd(*sshd_config lines): each with its own host key, and one key that may log in."""
    if not Path(SSHD).exists() or not shutil.which("ssh-keygen"):
        pytest.skip("needs OpenSSH: apt install openssh-server")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd's privilege separation wants it
    running: list[Sshd] = []

    def make(*options: str) -> Sshd:
        folder = tmp_path / f"sshd{len(running)}"
        folder.mkdir()
        keygen(folder / "host_key")
        keygen(folder / "id")
        shutil.copy(folder / "id.pub", folder / "authorized_keys")
        running.append(Sshd(folder, free_port(), options).start())
        return running[-1]

    yield make
    for server in running:
        server.stop()


@pytest.fixture
def sshd(make_sshd: MakeSshd) -> Sshd:
    return make_sshd()


def jump_config(inner: Sshd, outer: Sshd) -> str:
    """inner behind outer, which is called `login`"""
    outer.config("login")
    config = outer.folder / "ssh_config"
    return config.read_text() + inner.config("n", more="  ProxyJump login\n").read_text()


@pytest.fixture
def way(make_sshd: MakeSshd, tmp_path: Path) -> tuple[Path, Sshd, Sshd]:
    """The config of a host `n` behind a jump host, and both of them."""
    inner, outer = make_sshd(), make_sshd()
    config = tmp_path / "config with 'odd' 100%h name"
    config.write_text(CARELESS + jump_config(inner, outer))
    return config, inner, outer


@pytest.fixture
def ssh_agent(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment by which an ssh-agent without keys is reached."""
    path = tmp_path / "agent"
    argv, null = ["ssh-agent", "-D", "-a", str(path)], subprocess.DEVNULL
    with subprocess.Popen(argv, stdout=null, stderr=null) as process:
        try:
            assert listens(path)
            yield {**os.environ, "SSH_AUTH_SOCK": str(path)}
        finally:
            process.terminate()


def ssh_add(agent: dict[str, str], key: Path) -> None:
    subprocess.run(["ssh-add", "-q", str(key)], check=True, env=agent, stdin=subprocess.DEVNULL)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of the developer's own keys, agent and state."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path / "state"


@pytest.fixture
def transport() -> Iterator[Callable[..., SshTransport]]:
    """transport(config_file, *names)"""
    opened: list[SshTransport] = []

    def make(config: Path | None, *names: str) -> SshTransport:
        opened.append(SshTransport(tuple(Host(n) for n in names), config))
        return opened[-1]

    yield make
    for one in opened:
        one.close()
