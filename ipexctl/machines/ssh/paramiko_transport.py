"""Open a channel to a command on a host by the host's name, through jump hosts where needed."""

from __future__ import annotations

import atexit
import shutil
import stat
import subprocess
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

from ipexctl.errors import HostKeyChanged, HostKeyUnknown, Unreachable
from ipexctl.inventory.inventory import Host
from ipexctl.machines.openssh import login_command
from ipexctl.machines.openssh.ssh_config import SshSettings, proxy_command
from ipexctl.machines.ssh import stdio
from ipexctl.machines.ssh.channel import SshChannel, forward_tcp, open_exec_channel
from ipexctl.machines.ssh.config import Hops, SshConfig, hop_host, jump_chain
from ipexctl.machines.ssh.dial import Wire, dial_command, dial_host, retry_dropped
from ipexctl.machines.ssh.known_hosts import HostKey, KnownFiles, lookup_names, require_known_key
from ipexctl.machines.ssh.link import (
    SshLink,
    load_paramiko,
    new_transport,
    seconds_left,
    unsupported_setting,
)
from ipexctl.machines.ssh.login import KeyRing, authenticate
from ipexctl.machines.ssh.secrets import Secrets
from ipexctl.machines.wire.transport import Channel, allow_files
from ipexctl.quick_dataclass import dataclass


class SshTransport:
    """A transport that resolves `hosts` at once, so that a broken ssh_config is reported first."""

    def __init__(
        self,
        hosts: tuple[Host, ...],
        config_file: Path | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        allow_files(len(hosts))
        self._config = SshConfig(config_file)
        with ThreadPoolExecutor(1) as pool:  # ssh reads its configuration while Paramiko is loaded
            answers = pool.submit(self._config.answers, hosts)
            load_paramiko()
            self._answers = answers.result()
        self._known = KnownFiles(self._config.me)
        self._secrets = secrets or Secrets(terminal=False)
        self._keys = KeyRing(self._config.me, self._secrets)
        self._links: set[SshLink] = set()
        self._jumps: dict[tuple[str, ...], _Jump] = {}
        self._lock = threading.Lock()
        atexit.register(self.close)  # before Paramiko's own, which waits for every thread

    def unlock(self, hosts: Sequence[Host]) -> None:
        """Ask for what the logins will need now, before many hosts need it at once."""
        answers = [self._answer(hop) for host in hosts for hop in (*self.jump_hosts(host), host)]
        self._secrets.password()
        self._keys.unlock(answers)

    def open(self, host: Host, command: str, timeout: float) -> Channel:
        deadline = time.monotonic() + timeout
        link = self._log_in(self._answer(host), deadline)
        try:
            return SshChannel(host, link, open_exec_channel(host, link, command.encode(), deadline))
        except BaseException:
            link.close()
            raise

    def attend(self, host: Host, command: str, timeout: float, *, pty: bool) -> int:
        """Implement RemoteTransport.attend."""
        deadline = time.monotonic() + timeout
        link = self._log_in(self._answer(host), deadline)
        try:
            if not pty:
                return stdio.run_command(host, link, command, deadline)
            from ipexctl.machines.ssh import terminal

            return terminal.run_in_terminal(host, link, command)
        finally:
            link.close()

    def host_key(self, host: Host, timeout: float) -> HostKey:
        """Return the key that the host shows before any login, through its jump hosts."""
        deadline = time.monotonic() + timeout
        link = self._open_link(self._answer(host), deadline)
        try:
            return self._judge_key(link)
        finally:
            link.close()

    def jump_hosts(self, host: Host) -> tuple[Host, ...]:
        """Return the jump hosts on the way to the host, the nearest first."""
        return tuple(hop_host(hop) for hop in jump_chain(self._answer(host), self._answer))

    def find_ssh_only_feature(self, host: Host) -> str:
        """Return what the way to the host needs that only the ssh program supports, or ""."""
        answers = (self._answer(hop) for hop in (*self.jump_hosts(host), host))
        return next((need for answer in answers if (need := self._find_need(answer))), "")

    def _find_need(self, answer: SshSettings) -> str:
        """Return what the host needs that only the ssh program supports, or ""."""
        if need := next(iter(answer.needs), "") or unsupported_setting(answer):
            return need
        if self._known.for_host(answer).has_authority(_known_hosts_names(answer)):
            return "@cert-authority in known_hosts"
        if answer.kerberos and self._has_ticket:
            return "GSSAPIAuthentication"
        if answer.control_path and _is_socket(answer.control_path):
            return "ControlMaster"
        return "a key on a FIDO device" if self._keys.hardware_key(answer) else ""

    @cached_property
    def _has_ticket(self) -> bool:
        """Whether the user has run kinit."""
        klist = shutil.which("klist")
        with suppress(OSError, subprocess.TimeoutExpired):
            silent = subprocess.DEVNULL
            return bool(klist) and not subprocess.call(
                (str(klist), "-s"), stdin=silent, stdout=silent, stderr=silent, timeout=5
            )
        return False

    def fabric_connection(self, host: Host, timeout: float) -> Any:
        """Return a fabric.Connection; it ends with this transport."""
        link = self._log_in(self._answer(host), time.monotonic() + timeout)
        from ipexctl.machines.ssh import terminal

        return terminal.fabric_connection(link)

    def close(self) -> None:
        atexit.unregister(self.close)
        with self._lock:
            links, self._links = list(self._links), set()
        for link in links:
            link.close()
        deadline = time.monotonic() + 2.0
        for link in links:
            if link.transport.ident is not None:  # its thread was started
                link.transport.join(max(0.0, deadline - time.monotonic()))

    # --- the way to a host -----------------------------------------------------------------------

    def _answer(self, host: Host) -> SshSettings:
        with self._lock:
            if host not in self._answers:
                self._answers.update(self._config.answers([host]))
            return self._answers[host]

    def _log_in(self, answer: SshSettings, deadline: float, via: Hops | None = None) -> SshLink:
        """Connect, check the host key and authenticate."""
        if "RevokedHostKeys" in answer.needs:
            raise Unreachable(
                f"{answer.name}: only the ssh program reads the RevokedHostKeys of ssh_config",
                hint="leave out --ask-pass, and log in with a key",
                slug="revoked-keys-unreadable",
            )
        link = self._open_link(answer, deadline, via)
        try:
            require_known_key(self._judge_key(link))
            candidates = self._keys.candidates(answer)
            authenticate(link, candidates, deadline, self._secrets.password())
        except BaseException:
            link.close()
            raise
        return link

    def _open_link(self, answer: SshSettings, deadline: float, via: Hops | None = None) -> SshLink:
        """Return a connection with its keys exchanged."""

        def attempt() -> SshLink:
            return self._exchange_keys(answer, self._open_wire(answer, deadline, via), deadline)

        return retry_dropped(attempt, deadline)

    def _open_wire(self, answer: SshSettings, deadline: float, via: Hops | None) -> Wire:
        hops = jump_chain(answer, self._answer) if via is None else via
        if hops:
            return self._dial_through(answer, hops, deadline)
        if answer.proxy_command:
            return dial_command(proxy_command(answer, self._config.me))
        return dial_host(answer, deadline)

    def _dial_through(self, answer: SshSettings, hops: Hops, deadline: float) -> Wire:
        """Return a channel of the last jump host, which all hosts behind it share."""
        import paramiko

        jump = self._connect_jump(answer, hops, deadline)
        target = (answer.hostname, answer.port)
        try:
            channel = forward_tcp(jump.transport, target, seconds_left(deadline))
        except (paramiko.SSHException, EOFError, OSError) as e:
            raise Unreachable(
                f"{answer.name}: the jump host {hops[-1]} cannot reach {target[0]}:{target[1]}",
                why=getattr(e, "text", "") or str(e),  # sshd's message
                hint=login_command.ssh_to(answer.given, "true", options=("-J", ",".join(hops))),
                slug="jump-host-cannot-reach",
            ) from None
        return Wire(channel)

    def _connect_jump(self, answer: SshSettings, hops: Hops, deadline: float) -> SshLink:
        """Return the connection to the last jump host, made once and shared."""
        with self._lock:
            jump = self._jumps.setdefault(hops, _Jump())
        with jump.lock:
            if not jump.error and not (jump.link and jump.link.transport.is_active()):
                try:
                    hop = self._answer(hop_host(hops[-1]))
                    jump.link = self._log_in(hop, deadline, hops[:-1])
                except Unreachable as e:
                    jump.error = e
            if jump.error:
                raise _behind_jump(answer.name, hops[-1], jump.error) from None
            assert jump.link
            return jump.link

    # --- one connection --------------------------------------------------------------------------

    def _exchange_keys(self, answer: SshSettings, wire: Wire, deadline: float) -> SshLink:
        types = self._known.for_host(answer).types(_known_hosts_names(answer))
        link = SshLink(answer, new_transport(answer, wire, types), wire, self._forget_link)
        with self._lock:
            self._links.add(link)
        link.exchange_keys(deadline)
        return link

    def _forget_link(self, link: SshLink) -> None:
        with self._lock:
            self._links.discard(link)

    def _judge_key(self, link: SshLink) -> HostKey:
        names = _known_hosts_names(link.answer)
        key_type, blob = link.host_key()
        verdict = self._known.for_host(link.answer).judge(names, key_type, blob)
        return HostKey(link.answer, names, key_type, blob, verdict)


def _known_hosts_names(answer: SshSettings) -> tuple[str, ...]:
    return lookup_names(answer.hostname, answer.port, answer.host_key_alias)


def _is_socket(path: str) -> bool:
    with suppress(OSError):
        return stat.S_ISSOCK(Path(path).stat().st_mode)
    return False


# --- jump hosts ----------------------------------------------------------------------------------


@dataclass
class _Jump:
    """A jump host: one connection, or one failure, for all hosts behind it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    link: SshLink | None = None
    error: Unreachable | None = None


def _behind_jump(name: str, hop: str, error: Unreachable) -> Unreachable:
    """Return the error of the jump host, for a host behind it."""
    if isinstance(error, HostKeyUnknown | HostKeyChanged):
        return error  # shown once, under the jump host's own name
    return Unreachable(
        f"{name}: no connection through {hop}",
        why=f"{error.what}\n{error.why}".strip(),
        hint=error.hint,
        slug="jump-host-unreachable",
    )
