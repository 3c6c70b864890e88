"""The options of `shell`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ipexctl.cli.declared_command import command
from ipexctl.cli.options import HostOptions, Root, declare_option, make_target


@command("Hosts", 30, habits="exec ssh")
def shell(
    host: Annotated[str, typer.Argument(metavar="HOST", help="Host to log in to.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="Command to run instead of a shell, after --."),
    ] = None,
    *,
    hostfile: Annotated[Path | None, declare_option(HostOptions, "hostfile")] = None,
    ssh_config: Annotated[Path | None, declare_option(HostOptions, "ssh_config")] = None,
    ask_pass: Annotated[bool, declare_option(HostOptions, "ask_pass")] = False,
    transport: Annotated[str, declare_option(HostOptions, "transport")] = "paramiko",
    root: Root = "~/.ipexctl",
) -> None:
    """Log in to a host with its environment active.

    Examples:
      ipexctl shell node1
      ipexctl shell node1 -- python -c 'import torch; print(torch.__version__)'
    """
    from ipexctl.machines.target import target_of_host
    from ipexctl.shell.shell import run_shell

    via: dict[str, Any] = {"ask_pass": ask_pass, "transport": transport, "forks": 1}
    target = make_target(hostfile=hostfile, ssh_config=ssh_config, root=root, **via)
    if not hostfile:  # the host may be in that of the settings
        target = target_of_host(target, host)
    say = partial(print, file=sys.stderr)
    raise typer.Exit(run_shell(target, host, tuple(command or ()), root, say))
