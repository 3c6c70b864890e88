"""The options of `lab`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ipexctl.cli.declared_command import command_group
from ipexctl.cli.options import Json, print_json

if TYPE_CHECKING:
    from ipexctl.lab import Lab


@command_group("Hosts", 40, asks=False)
def lab() -> None:
    """Practice with real SSH hosts on this machine (Linux).

    Examples:
      ipexctl lab up -n 2
      ipexctl lab fault node02 unplug
      ipexctl lab down
    """


LabName = Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the lab.")]
LabHostName = Annotated[
    str, typer.Argument(metavar="HOST", help="Host in the lab, for example node01.")
]


@lab.command("up", habits="start create")
def lab_up(
    n: Annotated[int, typer.Option("-n", metavar="N", help="Number of hosts.")] = 3,
    name: LabName = "lab",
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="NAME:SHAPE",
            help="Properties of one host: node02:nic=ens3,shm=64m.",
        ),
    ] = None,
    flat: Annotated[
        bool, typer.Option("--flat", help="Start one host with N addresses, to test at scale.")
    ] = False,
    ipv6: Annotated[
        bool, typer.Option("--ipv6", help="Give the hosts IPv6 addresses only.")
    ] = False,
    owner: Annotated[
        int | None,
        typer.Option(
            "--owner", metavar="PID", help="End the lab when the process with this PID ends."
        ),
    ] = None,
    rung: Annotated[
        str,
        typer.Option(
            "--rung",
            metavar="RUNG",
            help="Isolation: full, user or flat (default: the best available).",
        ),
    ] = "",
    json: Json = False,
) -> None:
    """Start a lab: every host has its own address, home folder and sshd.

    Examples:
      ipexctl lab up
      ipexctl lab up -n 2 --host node02:nic=ens3,shm=64m
    """
    from ipexctl.lab import Lab, LabSpec
    from ipexctl.lab.cluster.lab_spec import parse_hosts

    hosts = parse_hosts(n, host or []) if host or not flat else ()
    spec = LabSpec(name, hosts, flat=n if flat else 0, ipv6=ipv6)
    _show_labs([Lab.up(spec, owner=owner, rung=rung)], json=json)


@lab.command("status", habits="list ls ps")
def lab_status(
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Show only this lab.")] = "",
    json: Json = False,
) -> None:
    """Show the running labs, their hosts and faults.

    Examples:
      ipexctl lab status
    """
    from ipexctl.lab import Lab
    from ipexctl.lab.cluster import practice_cluster

    names = [name] if name else practice_cluster.list_lab_names()
    _show_labs([Lab.open(lab_name) for lab_name in names], json=json)


@lab.command("shell")
def lab_shell(
    host: LabHostName,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="Command to run instead of a shell, after --."),
    ] = None,
    name: LabName = "lab",
    root: Annotated[bool, typer.Option("--root", help="Log in as root, without sshd.")] = False,
) -> None:
    """Log in to a host in a lab, or run a command there.

    Examples:
      ipexctl lab shell node01
      ipexctl lab shell node01 -- ip addr
      ipexctl lab shell node02 --root
    """
    from ipexctl.lab import Lab

    behind = ("--", *command) if command else ()
    lab = Lab.open(name, verb="shell", words=(host, *["--root"] * root, *behind))
    argv = lab.login_argv(host, command or (), root=root)
    os.execvp(argv[0], argv)


@lab.command("fault")
def lab_fault(
    host: LabHostName,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="Fault: kill, freeze, unplug, changed-key, fill-disk or no-sshd."
        ),
    ],
    name: LabName = "lab",
) -> None:
    """Inject a fault into a host, to see how ipexctl reacts.

    Examples:
      ipexctl lab fault node02 freeze
    """
    from ipexctl.lab import Lab

    Lab.open(name, verb="fault", words=(host, kind)).fault(host, kind)
    print(f"{host}: {kind}")


@lab.command("heal")
def lab_heal(host: LabHostName, name: LabName = "lab") -> None:
    """Undo every fault on a host; a killed host starts again.

    Examples:
      ipexctl lab heal node02
    """
    from ipexctl.lab import Lab

    Lab.open(name, verb="heal", words=(host,)).heal(host)
    print(f"{host}: healed")


@lab.command("down", habits="stop rm remove delete destroy")
def lab_down(
    name: LabName = "lab",
    everything: Annotated[bool, typer.Option("--all", help="Stop every lab.")] = False,
) -> None:
    """Stop a lab and remove all its files.

    Examples:
      ipexctl lab down
      ipexctl lab down --all
    """
    from ipexctl.lab import Lab
    from ipexctl.lab.cluster import practice_cluster

    names = practice_cluster.list_lab_names() if everything else [name]
    for lab_name in names:
        lab = Lab.open(lab_name, verb="down")
        if sys.stderr.isatty():
            print(f"ending lab '{lab_name}', and deleting its hosts' files", file=sys.stderr)
        lab.down()
        print(f"lab '{lab_name}' is down")


def _show_labs(labs: list[Lab], *, json: bool) -> None:
    from ipexctl.lab.lab_text import lab_text, labs_document

    if json:
        print_json(labs_document(labs))
    elif labs:
        print("\n\n".join(map(lab_text, labs)))
    else:
        print("no lab is up")
