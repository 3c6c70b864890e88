"""lab: the practice cluster."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from ipexctl.cli.options import Json, print_json

lab_app = typer.Typer(
    help="Practice with a cluster of real SSH hosts on this machine (Linux).",
    no_args_is_help=True,
    rich_markup_mode=None,
)

LabName = Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the lab.")]
LabHostName = Annotated[str, typer.Argument(metavar="HOST", help="A host of the lab: node01.")]


@lab_app.command("up", help="Start a lab: every host has its own address, home and sshd.")
def lab_up(
    n: Annotated[int, typer.Option("-n", metavar="N", help="Number of hosts.")] = 3,
    name: LabName = "lab",
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="NAME:SHAPE",
            help="Shape of one host: node02:isa=amx,nic=ens3,shm=64m.",
        ),
    ] = None,
    isa: Annotated[
        str, typer.Option("--isa", metavar="LIST", help="ISA of the hosts in turn: amx,avx2.")
    ] = "",
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="Login: trainer or root.")
    ] = "trainer",
    uplink: Annotated[
        str,
        typer.Option(
            "--uplink", metavar="RATE", help="Rate of this machine's link to the lab: 100mbit."
        ),
    ] = "",
    names: Annotated[bool, typer.Option("--names", help="Hosts know each other's names.")] = False,
    flat: Annotated[
        bool, typer.Option("--flat", help="One host with N addresses, for scale.")
    ] = False,
    ipv6: Annotated[
        bool, typer.Option("--ipv6", help="Give the hosts IPv6 addresses only.")
    ] = False,
    owner: Annotated[
        int | None,
        typer.Option("--owner", metavar="PID", help="End the lab when this process ends."),
    ] = None,
    rung: Annotated[
        str,
        typer.Option(
            "--rung", metavar="RUNG", help="How real: full, user or flat (default: the best here)."
        ),
    ] = "",
    json: Json = False,
) -> None:
    from ipexctl.lab import LabSpec
    from ipexctl.verbs import lab as verb

    spec = LabSpec(name=name, user=user, uplink=uplink, names=names, ipv6=ipv6)
    wanted = verb.UpOptions(spec, n, tuple(host or ()), isa, flat, owner, rung)
    _show_labs((verb.up(wanted),), json=json)


@lab_app.command("status", help="Show the labs that are up, their hosts and faults.")
def lab_status(
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Only this lab.")] = "",
    json: Json = False,
) -> None:
    from ipexctl.verbs import lab as verb

    _show_labs(verb.status(name), json=json)


@lab_app.command("shell", help="Log in to a host.")
def lab_shell(
    host: LabHostName,
    name: LabName = "lab",
    root: Annotated[bool, typer.Option("--root", help="Log in as root, without sshd.")] = False,
) -> None:
    from ipexctl.verbs import lab as verb

    argv = verb.shell(host, name, root=root)
    os.execvp(argv[0], argv)


@lab_app.command("fault", help="Break a host, to see what ipexctl makes of it.")
def lab_fault(
    host: LabHostName,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="kill, freeze, unplug, changed-key, fill-disk or no-sshd."
        ),
    ],
    name: LabName = "lab",
) -> None:
    from ipexctl.verbs import lab as verb

    verb.fault(host, kind, name)
    print(f"{host}: {kind}")


@lab_app.command("heal", help="Undo every fault of a host; one that was killed starts again.")
def lab_heal(host: LabHostName, name: LabName = "lab") -> None:
    from ipexctl.verbs import lab as verb

    verb.heal(host, name)
    print(f"{host}: healed")


@lab_app.command("down", help="End a lab. Nothing of it stays.")
def lab_down(
    name: LabName = "lab",
    everything: Annotated[bool, typer.Option("--all", help="Every lab.")] = False,
) -> None:
    from ipexctl.verbs import lab as verb

    for ended in verb.down(name, everything=everything):
        print(f"lab '{ended}' is down")


def _show_labs(states: tuple[Any, ...], *, json: bool) -> None:
    from ipexctl.ui.lab import lab_text
    from ipexctl.verbs.lab import document

    if json:
        print_json(document(states))
    elif states:
        print("\n\n".join(lab_text(state) for state in states))
    else:
        print("no lab is up")
