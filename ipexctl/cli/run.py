"""run and shell."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, get_args, get_type_hints

import typer

from ipexctl.cli.options import (
    AskPass,
    Exclude,
    Forks,
    Hostfile,
    HostList,
    Limit,
    Root,
    SshConfig,
    TransportName,
    make_target,
)
from ipexctl.errors import InputError

if TYPE_CHECKING:
    from ipexctl.verbs.watch import Interrupts


def run(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="With -m: a module.")],
    args: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="Everything after the script is the script's."),
    ] = None,
    hostfile: Hostfile = None,
    hosts: HostList = None,
    n: Annotated[int | None, typer.Option("-n", "--np", help="Ranks in all.")] = None,
    ppn: Annotated[
        int | None, typer.Option("--ppn", "--nproc-per-node", help="Ranks per host (also -ppn).")
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is a module.")] = False,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", help="K=V for every rank; K: as it is here."),
    ] = None,
    host_timeout: Annotated[
        float, typer.Option("--host-timeout", min=1, help="Seconds a host may be silent.")
    ] = 30,
    limit: Limit = None,
    exclude: Exclude = None,
    ssh_config: SshConfig = None,
    ask_pass: AskPass = False,
    transport: TransportName = "paramiko",
    root: Root = "~/.ipexctl",
    forks: Forks = 64,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Run a PyTorch script on all hosts with mpirun, with live output of every rank."""
    from ipexctl.ui.run import view
    from ipexctl.verbs.run import RunOptions
    from ipexctl.verbs.run import run as verb
    from ipexctl.verbs.settings import configured_env

    options = RunOptions(
        script=script,
        args=tuple(args or ()),
        module=module,
        n=n,
        ppn=ppn,
        root=root,
        env=_pairs([*configured_env(), *(env or [])]),
        host_timeout=host_timeout,
    )
    target = make_target(
        hostfile,
        hosts,
        ssh_config,
        forks,
        only=(limit, exclude),
        ask_pass=ask_pass,
        transport=transport,
    )
    with _interrupts() as interrupts:
        result = verb(target, options, view(as_json=json), interrupts)
    raise typer.Exit(result.exit_code)


def _pairs(items: list[str]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for item in items:
        key, sign, value = item.partition("=")
        if not key.isidentifier():
            raise InputError(f"--env {item}: not of the form NAME=VALUE or NAME")
        if not sign and key not in os.environ:
            raise InputError(f"--env {key}: not set here, so there is no value to pass on")
        pairs.append((key, value if sign else os.environ[key]))
    return tuple(pairs)


@contextmanager
def _interrupts() -> Iterator[Interrupts]:
    """Ctrl-C (and the end of the terminal) counted instead of raised, while a run can answer it."""
    from ipexctl.verbs.watch import Interrupts

    interrupts = Interrupts()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, interrupts.hit) for number in numbers]
    try:
        yield interrupts
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


_MPI_SPELLINGS = {
    "-np": "-n", "-ppn": "--ppn", "--nproc_per_node": "--ppn", "-hosts": "-H",
    "-hostfile": "-f", "-machinefile": "-f",
}  # fmt: skip


def _flags(command: Callable[..., None]) -> frozenset[str]:
    """The options of a command that take no value."""
    hints = get_type_hints(command, include_extras=True).values()
    options = [get_args(hint)[1] for hint in hints if get_args(hint)[:1] == (bool,)]
    # inside Annotated, Typer keeps the first spelling where it otherwise has the default
    return frozenset({"--help", *(w for o in options for w in (o.default, *(o.param_decls or ())))})


def long_dashes(args: list[str]) -> list[str]:
    """MPI's one-dash words as Click understands them; what follows the script is the script's."""
    if not args or args[0] != "run":
        return args
    flags = _flags(run)
    out, i = ["run"], 1
    while i < len(args) and args[i].startswith("-") and args[i] != "--":
        word = _MPI_SPELLINGS.get(args[i], args[i])
        alone = word in flags or "=" in word or (word[1:2] != "-" and len(word) > 2)
        out += [word] if alone else [word, *args[i + 1 : i + 2]]
        i += 1 if alone else 2
    return out + args[i:]


def shell(
    host: Annotated[str, typer.Argument(metavar="HOST")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="After --: what to run instead of a shell."),
    ] = None,
    hostfile: Hostfile = None,
    ssh_config: SshConfig = None,
    ask_pass: AskPass = False,
    transport: TransportName = "paramiko",
    root: Root = "~/.ipexctl",
) -> None:
    """Log in to a host, with the environment that `install` put there."""
    from ipexctl.verbs.shell import attend

    names = None if hostfile else [host]
    target = make_target(hostfile, names, ssh_config, 1, ask_pass=ask_pass, transport=transport)
    code = attend(
        target, host, tuple(command or ()), root, lambda text: print(text, file=sys.stderr)
    )
    raise typer.Exit(code)
