"""The options of `shell`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ipexctl.cli.options import AskPass, Hostfile, Root, SshConfig, TransportName, Yes, target_of
from ipexctl.project.send_agreed import send_agreed


def shell(
    host: Annotated[str, typer.Argument(metavar="HOST", help="Host to log in to.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="Command to run instead of a shell, after --."),
    ] = None,
    with_mpi: Annotated[
        bool,
        typer.Option("--mpi", help="Copy this folder to all hosts and let mpirun reach them."),
    ] = False,
    *,
    hostfile: Hostfile = None,
    ssh_config: SshConfig = None,
    ask_pass: AskPass = False,
    transport: TransportName = "paramiko",
    root: Root = "~/.ipexctl",
    yes: Yes = False,
) -> None:
    """Log in to a host with its environment active, or run a command there."""
    from ipexctl.shell import mpi_shell
    from ipexctl.shell.shell import run_shell

    target = target_of(
        host, hostfile, ssh_config, root=root, ask_pass=ask_pass, transport=transport
    )
    if with_mpi:
        raise typer.Exit(
            mpi_shell.run_shell(target, host, tuple(command or ()), root, send_agreed(yes=yes))
        )
    code = run_shell(
        target, host, tuple(command or ()), root, lambda text: print(text, file=sys.stderr)
    )
    raise typer.Exit(code)
