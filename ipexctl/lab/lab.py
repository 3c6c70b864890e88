"""`lab`: words of the command line to a Lab and back to values."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from ipexctl.base import quoting
from ipexctl.errors import InputError
from ipexctl.lab import Lab, LabSpec
from ipexctl.lab.cluster import practice_cluster as labs
from ipexctl.lab.cluster import rungs
from ipexctl.lab.cluster.lab_spec import parse_hosts
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class HostState:
    name: str
    address: str
    up: bool
    faults: tuple[str, ...]


@dataclass(frozen=True)
class LabState:
    """What `lab up` and `lab status` say about one lab."""

    name: str
    user: str
    hostfile: str
    ssh_config: str
    hosts: tuple[HostState, ...]
    addresses: tuple[str, ...] = ()
    rung: str = ""
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class UpOptions:
    """The words of `lab up`; the shapes are still text."""

    spec: LabSpec
    count: int = 3
    hosts: tuple[str, ...] = ()
    isas: str = ""
    flat: bool = False
    owner: int | None = None
    rung: str = ""


def up(options: UpOptions) -> LabState:
    if options.flat and (options.hosts or options.isas):
        raise InputError("a flat lab has no shapes", hint="leave out --flat, or --host and --isa")
    if options.flat:
        spec = replace(options.spec, flat=options.count)
    else:
        made = parse_hosts(options.count, list(options.hosts), options.isas)
        spec = replace(options.spec, hosts=made)
    return describe(Lab.up(spec, owner=options.owner, rung=options.rung))


def status(name: str = "") -> tuple[LabState, ...]:
    """One lab, or every lab that is up."""
    chosen = [name] if name else labs.names()
    return tuple(describe(Lab.open(each)) for each in chosen)


def down(name: str = "lab", *, everything: bool = False) -> tuple[str, ...]:
    """End one lab or all; the names of those that ended."""
    chosen = labs.names() if everything else [name]
    for each in chosen:
        Lab.open(each, verb="down").down()
    return tuple(chosen)


def fault(host: str, kind: str, name: str = "lab") -> None:
    Lab.open(name, verb="fault", words=(host, kind)).fault(host, kind)


def heal(host: str, name: str = "lab") -> None:
    Lab.open(name, verb="heal", words=(host,)).heal(host)


def shell(
    host: str, name: str = "lab", command: tuple[str, ...] = (), *, root: bool = False
) -> list[str]:
    """The command that becomes the shell, or runs `command`: ssh, or past sshd into the namespaces
    as root."""
    lab = Lab.open(name, verb="shell", words=(host, *["--root"] * root))
    if root or lab.rung == rungs.FLAT:  # its sshd may have no terminal to give
        return lab.shell_argv(host, command, user="root")
    if host not in lab.hosts and host not in lab.addresses:
        raise lab.no_such_host(host)
    target = lab.addresses[0] if host in lab.hosts and lab.addresses else host
    line = [quoting.quote(command)] if command else []
    return ["ssh", "-F", str(lab.ssh_config), target, *line]


def describe(lab: Lab) -> LabState:
    now = lab.status()
    hosts = lab.hosts.values()
    return LabState(
        name=lab.name,
        user=lab.user,
        hostfile=str(lab.hostfile),
        ssh_config=str(lab.ssh_config),
        hosts=tuple(
            HostState(h.name, h.address, bool(now[h.name][0]), tuple(now[h.name][1])) for h in hosts
        ),
        addresses=lab.addresses,
        rung=lab.rung,
        left_out=lab.left_out,
    )


def document(states: tuple[LabState, ...]) -> dict[str, Any]:
    return {"schema_version": 1, "labs": [asdict(state) for state in states]}
