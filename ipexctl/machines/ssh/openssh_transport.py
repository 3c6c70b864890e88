"""Hosts over the ssh program, one process each: for logins that only ssh itself supports.

Kerberos, hardware keys, second factors through a ControlMaster. Slower than `machines/ssh`, and its
errors are text. Whatever ssh_config says, ssh must know the host's key and never asks questions.
"""

from __future__ import annotations

import math
import secrets
import shlex
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from ipexctl.base.quoting import quote
from ipexctl.errors import HostKeyChanged, HostKeyUnknown, NotHere, Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.machines.openssh import login_command, startup_files
from ipexctl.machines.openssh.ssh_config import SshSettings
from ipexctl.machines.ssh.config import Hops, SshConfig, hop_host, jump_chain, ssh_options
from ipexctl.machines.ssh.dial import CUT_OFF, SEE_SSHD, Dropped, retry_dropped
from ipexctl.machines.ssh.known_hosts import own_known_hosts
from ipexctl.machines.ssh.unresolved import name_not_resolved
from ipexctl.machines.wire.transport import Channel, ChannelTimeout, PipeChannel, allow_files
from ipexctl.quick_dataclass import dataclass

NOISE_LIMIT = 1 << 20
INPUT_WAIT = 1.0  # seconds at the end in which a command that waits for input gets some
SSH_FAILED = 255  # ssh's own exit code for everything that isn't the command's
_FORCED = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",  # only `trust` writes keys
    "CheckHostIP=no",
    "NoHostAuthenticationForLocalhost=no",
    "VerifyHostKeyDNS=no",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "RemoteCommand=none",
    "LogLevel=ERROR",
    "ServerAliveInterval=10",
    "ServerAliveCountMax=3",
)


class OpenSshTransport:
    """A transport that resolves `hosts` at once, so that a broken ssh_config is reported first."""

    def __init__(self, hosts: tuple[Host, ...], config_file: Path | None = None) -> None:
        program = shutil.which("ssh")
        if program is None:
            raise NotHere(
                "--transport openssh needs the ssh program, which is not installed",
                hint="apt install openssh-client   # or leave --transport out",
                slug="ssh-program-missing",
            )
        self._program = program
        self._file = config_file
        self._config = SshConfig(config_file)
        self._answers = self._config.answers(hosts)
        allow_files(len(hosts))

    def open(self, host: Host, command: str, timeout: float) -> Channel:
        deadline = time.monotonic() + timeout
        return retry_dropped(lambda: self._try_login(host, command, deadline), deadline)

    def attend(self, host: Host, command: str, timeout: float, *, pty: bool) -> int:
        """Implement RemoteTransport.attend; ssh itself reports errors."""
        argv = self._build_argv(host, timeout, "-t" if pty else "-T")
        code = subprocess.call((*argv, "--", host.address or host.name, command))
        return code if code >= 0 else 128 - code

    def options(self, host: Host, timeout: float) -> tuple[str, ...]:
        """Return options for another program that uses ssh or sftp: jump hosts, and the keys to
        verify. User and port are left to that program."""
        words = self._build_argv(host, timeout)[1:]
        pairs = zip(words[::2], words[1::2], strict=True)
        return tuple(word for pair in pairs if pair[0] in ("-F", "-o") for word in pair)

    def close(self) -> None:
        return None

    def _try_login(self, host: Host, command: str, deadline: float) -> Channel:
        """Start ssh once, and wait for the marker that its remote shell prints."""
        marker = "ipexctl" + secrets.token_hex(8)
        limit = max(1.0, deadline - time.monotonic())
        # `echo` and `;` mean the same to sh, csh and fish
        argv = (*self._build_argv(host, limit, "-T"), "--", host.address or host.name)
        argv += (f"echo {marker}; {command}",)
        channel = _SshProcess(argv)
        try:
            if channel.wait_for_login(marker, deadline - INPUT_WAIT):
                return channel
            if channel.exit_status(0.0) is None:
                with suppress(OSError):
                    channel.write(b"\n")
                if channel.wait_for_login(marker, deadline):
                    evidence = f"it was silent for {limit - INPUT_WAIT:.0f} s, until it got a line"
                    raise startup_files.input_gone(host, evidence)
            configured = self._answer(host).configured
            status, message = channel.exit_status(0.0), _stderr_text(channel)
            raise explain_ssh_error(host, status, message, configured=configured)
        except BaseException:
            channel.close()
            raise

    def _build_argv(
        self, host: Host, limit: float, *words: str, via: Hops | None = None
    ) -> tuple[str, ...]:
        """Return the ssh command with our options, which override those of ssh_config."""
        argv = [self._program, *words, *ssh_options(host, self._file)]
        timeout = max(1, math.floor(limit) - 1)  # so that ssh itself still reports why
        answer = self._answer(host)
        options = [*_FORCED, f"ConnectTimeout={timeout}", _known_hosts(answer)]
        hops = jump_chain(answer, self._answer) if via is None else via
        if hops:
            options.append(f"ProxyCommand={self._build_proxy_command(hops, limit)}")
        elif not answer.proxy_command:
            options.append("ProxyJump=none")  # else `Host *` may send a jump host to itself
        return (*argv, *(word for option in options for word in ("-o", option)))

    def _build_proxy_command(self, hops: Hops, limit: float) -> str:
        """Return a ProxyJump replacement with our options: ssh's own would have only -F.

        The shell reads it after ssh has replaced the % tokens.
        """
        host = hop_host(hops[-1])
        argv = (*self._build_argv(host, limit, "-T", via=hops[:-1]), "-W")
        words = " ".join(shlex.quote(word) for word in argv).replace("%", "%%")
        return f"{words} '[%h]:%p' {shlex.quote(host.name).replace('%', '%%')}"

    def _answer(self, host: Host) -> SshSettings:
        return self._answers.get(host) or self._config.answers([host])[host]


class _SshProcess(PipeChannel):
    """The channel of a running ssh."""

    patience = 0.0  # before the command has printed anything there is nothing to wait for

    def __init__(self, argv: tuple[str, ...]) -> None:
        super().__init__(argv)
        self._first = b""

    def wait_for_login(self, marker: str, deadline: float) -> bool:
        """Wait until the login is done; False if ssh failed. Keeps what follows the marker; without
        a marker, all that was printed."""
        expected = marker.encode("ascii") + b"\n"
        while expected not in self._first and len(self._first) < NOISE_LIMIT:
            remaining = deadline - time.monotonic()
            try:
                data = super().read(1 << 16, max(0.0, remaining))
            except ChannelTimeout:
                return False
            if not data:
                # A login shell that runs nothing is the command's failure, not ssh's.
                return self.exit_status(1.0) != SSH_FAILED
            self._first += data
        self.patience = PipeChannel.patience
        self._first = self._first.partition(expected)[2]
        return True

    def read(self, size: int, timeout: float | None = None) -> bytes:
        if self._first:
            data, self._first = self._first[:size], self._first[size:]
            return data
        return super().read(size, timeout)


# --- ssh's messages as our errors ---------------------------------------------------------------


@dataclass(frozen=True)
class _Saying:
    """A message `said` by ssh, what it means, and the next thing to type (fields: `_commands`)."""

    said: str
    slug: str
    means: str
    hint: str
    kind: type[Unreachable] = Unreachable


_REVOKED = "host-key-revoked", "its host key is revoked", "find out who revoked it", HostKeyChanged
_SAYINGS = (
    _Saying("REVOKED HOST KEY", *_REVOKED),
    _Saying("revoked by file", *_REVOKED),
    _Saying(
        "Certificate invalid",
        "host-certificate-invalid",
        "its host certificate is not valid",
        "sign it again: ssh-keygen -s CA -h -n NAMES ssh_host_ed25519_key.pub",
        HostKeyChanged,
    ),
    _Saying(
        "IDENTIFICATION HAS CHANGED",
        "host-key-changed",
        "its host key has changed",
        "ssh-keygen -R {key}   # only when you know why it changed",
        HostKeyChanged,
    ),
    _Saying(
        "host key is known for",
        "host-key-unknown",
        "its host key is not trusted yet",
        "ipexctl trust -H {name}",
        HostKeyUnknown,
    ),
    _Saying(
        "Connection refused",
        "connection-refused",
        "the host refused the connection",
        "on {name}: " + SEE_SSHD,
    ),
    _Saying(
        "during banner exchange",
        "no-ssh-banner",
        "its port sends no SSH banner",
        "{debug}",
    ),
    _Saying("timed out", "no-answer", "no answer", "ping -c 3 {where}"),
    _Saying("No route to host", "no-answer", "no answer", "ping -c 3 {where}"),
    _Saying("is unreachable", "no-route", "there is no route to the host", "ip route get {where}"),
    _Saying(
        "Permission denied",
        "login-failed",
        "the login failed",
        "{true}   # must work without a prompt\n"
        "if it does not: {copy}; with Kerberos, run kinit first",
    ),
    _Saying(
        "Not allowed at this time",
        "ssh-penalty",
        "sshd temporarily refuses connections from this machine",
        "wait a minute",
    ),
)
_DROPPED = ("kex_exchange_identification", "Connection reset by")


def explain_ssh_error(
    host: Host, status: int | None, text: str, *, configured: str | None = None
) -> Unreachable | Dropped:
    """Turn ssh's message into one of our errors; `status` None: it still ran at the deadline."""
    if "Could not resolve hostname" in text:
        return name_not_resolved(host, login_command.ssh_hostname(host), text, configured)
    match = next((saying for saying in _SAYINGS if saying.said in text), None)
    if match:
        hint = match.hint.format(**_hint_commands(host))
        return match.kind(f"{host.name}: {match.means}", why=text, hint=hint, slug=match.slug)
    if any(words in text for words in _DROPPED):
        return Dropped(host, text)
    hint = login_command.ssh_debug_command(host)
    if status is None:
        return Unreachable(f"{host.name}: ssh timed out", why=text, hint=hint, slug=CUT_OFF)
    return Unreachable(
        f"{host.name}: ssh failed (exit {status})", why=text, hint=hint, slug="ssh-failed"
    )


def _hint_commands(host: Host) -> dict[str, str]:
    where = login_command.ssh_hostname(host)
    return {
        "name": host.name,
        "where": where,
        "key": quote((f"[{where}]:{host.port}" if host.port else where,)),
        "debug": login_command.ssh_debug_command(host),
        "true": login_command.ssh_to(host, "true"),
        "copy": login_command.copy_id(host),
    }


def _stderr_text(channel: Channel) -> str:
    lines = channel.stderr().decode("utf-8", "replace").splitlines()
    return "\n".join(line.strip() for line in lines if line.strip("@ \r"))[-2000:]


def _known_hosts(answer: SshSettings) -> str:
    """Return the option for ssh_config's files and ours; ssh expands ~ and tokens in them."""
    paths = [path for path in answer.user_known_hosts if path != "none"]
    own_file = str(own_known_hosts()).replace("%", "%%")
    return "UserKnownHostsFile=" + " ".join(f'"{path}"' for path in (*paths, own_file))
