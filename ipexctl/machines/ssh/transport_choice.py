"""Paramiko for most hosts and the ssh program for those that need it, as one transport."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ipexctl.inventory.inventory import Host
from ipexctl.inventory.nodeset import fold
from ipexctl.machines.ssh.paramiko_transport import SshTransport
from ipexctl.machines.ssh.secrets import Secrets
from ipexctl.machines.wire.transport import Channel, RemoteTransport


def choose_transport(
    hosts: tuple[Host, ...],
    config_file: Path | None,
    secrets: Secrets,
    note: Callable[[str], None],
) -> RemoteTransport:
    """Return a transport; `note` gets the hosts that take the ssh program, and why. With --ask-pass
    none does: ssh would ask for the password itself."""
    ssh = SshTransport(hosts, config_file, secrets)
    needs = {host: "" if secrets.ask_pass else ssh.find_ssh_only_feature(host) for host in hosts}
    ssh.unlock([host for host in hosts if not needs[host]])
    by_program = tuple(host for host in hosts if needs[host])
    if not by_program:
        return ssh
    for need in dict.fromkeys(needs[host] for host in by_program):
        names = fold(host.name for host in by_program if needs[host] == need)
        note(f"{names}: connected by the ssh program, because of {need}")
    from ipexctl.machines.ssh.openssh_transport import OpenSshTransport

    return _Both(ssh, OpenSshTransport(by_program, config_file), frozenset(by_program))


class _Both:
    """A RemoteTransport (see transport.py) of both."""

    def __init__(
        self, ssh: RemoteTransport, program: RemoteTransport, by_program: frozenset[Host]
    ) -> None:
        self._ssh, self._program, self._by_program = ssh, program, by_program

    def open(self, host: Host, command: str, timeout: float) -> Channel:
        return self._choose_way(host).open(host, command, timeout)

    def attend(self, host: Host, command: str, timeout: float, *, pty: bool) -> int:
        return self._choose_way(host).attend(host, command, timeout, pty=pty)

    def close(self) -> None:
        self._ssh.close()
        self._program.close()

    def _choose_way(self, host: Host) -> RemoteTransport:
        return self._program if host in self._by_program else self._ssh
