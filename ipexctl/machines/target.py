"""The hosts that a command is about, and how they are reached."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from pathlib import Path

from ipexctl.base.typed_command import Typed
from ipexctl.errors import InputError, NotHere, unknown_value
from ipexctl.inventory.host_patterns import select_hosts
from ipexctl.inventory.hostfile_text import parse_hostfile, parse_hosts, this_machine
from ipexctl.inventory.inventory import Host, Inventory
from ipexctl.local import hostfile_reader
from ipexctl.local.last_outcome import last_states
from ipexctl.machines.ssh.secrets import Secrets
from ipexctl.machines.wire.transport import RemoteTransport
from ipexctl.quick_dataclass import dataclass

ROOT = "~/.ipexctl"  # ipexctl's folder on a host
TRANSPORTS = ("paramiko", "openssh")


@dataclass(frozen=True)
class Target:
    """The options that every command with hosts has."""

    hostfile: Path | None = None
    hosts: tuple[str, ...] = ()
    ssh_config: Path | None = None
    forks: int = 64
    connect_timeout: float = 15.0
    ask_pass: bool = False
    transport: str = "paramiko"
    secrets: Secrets = field(default_factory=Secrets, repr=False, compare=False)
    limit: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    typed: Typed = Typed()
    configured: frozenset[str] = frozenset()  # options that a settings file gives every command
    note: Callable[[str], None] = field(default=lambda text: None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.transport not in TRANSPORTS:
            raise unknown_value("--transport", self.transport, TRANSPORTS)
        if self.ask_pass and self.transport == "openssh":
            raise InputError(
                "--ask-pass cannot be combined with --transport openssh",
                why="the ssh program asks for a password only on a terminal",
                hint="leave --transport out, or open a ControlMaster first: ssh -M HOST",
                slug="options-conflict",
            )
        self.secrets.ask_pass = self.ask_pass


def read_inventory(target: Target) -> Inventory:
    """Return the hosts named by -f, -H or as arguments, without those that --limit and -x exclude.

    If none is named, it is the controller.
    """
    hosts = all_hosts(target)
    for note in hosts.notes:
        target.note(note)
    if not target.limit and not target.exclude:
        return hosts
    return select_hosts(hosts, target.limit, target.exclude, last_states(hosts))


def root_of(host: Host, default: str) -> str:
    """Return ipexctl's folder on this host."""
    return host.root or default


def all_hosts(target: Target) -> Inventory:
    """Return every host, whatever --limit says."""
    if target.hostfile and target.hosts:
        raise InputError(
            "hosts are given twice: in a hostfile and on the command line",
            hint="use either -f FILE or -H host1,host2; for some hosts of a file: -f FILE -l host1",
            slug="options-conflict",
        )
    if target.hostfile:
        hosts = parse_hostfile(hostfile_reader.read_hostfile(target.hostfile), str(target.hostfile))
        return replace(hosts, notes=(*hosts.notes, *_unread_variable_folders(target.hostfile)))
    if target.hosts:
        return parse_hosts(target.hosts)
    if not sys.platform.startswith("linux"):
        raise NotHere(
            "this machine is not Linux, so it cannot train",
            hint="name Linux hosts: -f hostfile or -H host1,host2\n" + hostfile_reader.NEW,
            slug="not-linux",
        )
    controller = this_machine()
    if hostfile := hostfile_reader.hostfile_here():
        note = f"no hosts given, so this machine is used; for those in {hostfile}: -f {hostfile}"
        return replace(controller, notes=(note,))
    return controller


def _unread_variable_folders(hostfile: Path) -> Iterator[str]:
    """Warn about Ansible's variable folders, which are not read: they may contain addresses."""
    for name in ("host_vars", "group_vars"):
        if (hostfile.parent / name).is_dir():
            yield f"{hostfile.parent / name} is not read; ansible-inventory --list --yaml reads it"


def over_ssh(target: Target, hosts: tuple[Host, ...]) -> RemoteTransport:
    if target.transport == "openssh":
        from ipexctl.machines.ssh.openssh_transport import OpenSshTransport

        return OpenSshTransport(hosts, target.ssh_config)
    from ipexctl.machines.ssh.transport_choice import choose_transport

    return choose_transport(hosts, target.ssh_config, target.secrets, target.note)


def target_of_host(target: Target, name: str) -> Target:
    """Return the target of one host; the hostfile of the settings is used only if it lists it."""
    if target.hostfile and any(host.name == name for host in all_hosts(target).hosts):
        return target
    return replace(target, hostfile=None, hosts=(name,))
