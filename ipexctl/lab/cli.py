"""The options of lab."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from ipexctl.cli.help.help_layout import CommandGroup
from ipexctl.cli.options import Json, print_json

lab_app = CommandGroup(
    help="Practice with a cluster of real SSH hosts on this machine (Linux).",
)

LabName = Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the lab.")]
LabHostName = Annotated[
    str, typer.Argument(metavar="HOST", help="Host in the lab, for example node01.")
]


@lab_app.command("up", help="Start a lab: every host has its own address, home folder and sshd.")
def lab_up(
    n: Annotated[int, typer.Option("-n", metavar="N", help="Number of hosts.")] = 3,
    name: LabName = "lab",
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="NAME:SHAPE",
            help="Properties of one host: node02:isa=amx,nic=ens3,shm=64m.",
        ),
    ] = None,
    isa: Annotated[
        str,
        typer.Option(
            "--isa", metavar="LIST", help="Instruction sets of the hosts, in turn: amx,avx2."
        ),
    ] = "",
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="Login user: trainer or root.")
    ] = "trainer",
    uplink: Annotated[
        str,
        typer.Option(
            "--uplink", metavar="RATE", help="Bandwidth from this machine to the lab: 100mbit."
        ),
    ] = "",
    names: Annotated[
        bool, typer.Option("--names", help="Let hosts resolve the names of other hosts.")
    ] = False,
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
    from ipexctl.lab import LabSpec
    from ipexctl.lab import lab as verb

    spec = LabSpec(name=name, user=user, uplink=uplink, names=names, ipv6=ipv6)
    wanted = verb.UpOptions(spec, n, tuple(host or ()), isa, flat, owner, rung)
    _show_labs((verb.up(wanted),), json=json)


@lab_app.command("status", help="Show the running labs, their hosts and faults.")
def lab_status(
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Show only this lab.")] = "",
    json: Json = False,
) -> None:
    from ipexctl.lab import lab as verb

    _show_labs(verb.status(name), json=json)


@lab_app.command("shell", help="Log in to a host in a lab, or run a command there.")
def lab_shell(
    host: LabHostName,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="Command to run instead of a shell, after --."),
    ] = None,
    name: LabName = "lab",
    root: Annotated[bool, typer.Option("--root", help="Log in as root, without sshd.")] = False,
) -> None:
    from ipexctl.lab import lab as verb

    argv = verb.shell(host, name, tuple(command or ()), root=root)
    os.execvp(argv[0], argv)


@lab_app.command("fault", help="Inject a fault into a host, to see how ipexctl reacts.")
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
    from ipexctl.lab import lab as verb

    verb.fault(host, kind, name)
    print(f"{host}: {kind}")


@lab_app.command("heal", help="Undo every fault on a host; a killed host starts again.")
def lab_heal(host: LabHostName, name: LabName = "lab") -> None:
    from ipexctl.lab import lab as verb

    verb.heal(host, name)
    print(f"{host}: healed")


@lab_app.command("down", help="Stop a lab and remove all its files.")
def lab_down(
    name: LabName = "lab",
    everything: Annotated[bool, typer.Option("--all", help="Stop every lab.")] = False,
) -> None:
    from ipexctl.lab import lab as verb

    for ended in verb.down(name, everything=everything):
        print(f"lab '{ended}' is down")


def _show_labs(states: tuple[Any, ...], *, json: bool) -> None:
    from ipexctl.lab.lab import document
    from ipexctl.lab.lab_text import lab_text

    if json:
        print_json(document(states))
    elif states:
        print("\n\n".join(lab_text(state) for state in states))
    else:
        print("no lab is up")
