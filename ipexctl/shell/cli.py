"""The options of `shell`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ipexctl.cli.options import AskPass, Hostfile, Root, SshConfig, TransportName, target_of


def shell(
    host: Annotated[str, typer.Argument(metavar="HOST", help="Host to log in to.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="Command to run instead of a shell, after --."),
    ] = None,
    *,
    hostfile: Hostfile = None,
    ssh_config: SshConfig = None,
    ask_pass: AskPass = False,
    transport: TransportName = "paramiko",
    root: Root = "~/.ipexctl",
) -> None:
    """Log in to a host with its environment active, or run a command there."""
    from ipexctl.shell.shell import run_shell

    target = target_of(
        host, hostfile, ssh_config, root=root, ask_pass=ask_pass, transport=transport
    )
    code = run_shell(
        target, host, tuple(command or ()), root, lambda text: print(text, file=sys.stderr)
    )
    raise typer.Exit(code)
