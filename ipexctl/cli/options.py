"""Options that several commands share, and what becomes of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn, Protocol, TypeVar

import typer

Hostfile = Annotated[
    Path | None,
    typer.Option("-f", "--hostfile", "--machinefile", help="File with one host per line."),
]
HostList = Annotated[
    list[str] | None, typer.Option("-H", "--hosts", help="Hosts by name: a,b:2 (repeatable).")
]
SshConfig = Annotated[
    Path | None, typer.Option("-F", "--ssh-config", help="SSH configuration file to use.")
]
Forks = Annotated[int, typer.Option("--forks", min=1, help="Hosts worked on at the same time.")]
Limit = Annotated[
    list[str] | None,
    typer.Option("-l", "--limit", help="Only these: node[1-4], @group, all:!bad, @healthy."),
]
Exclude = Annotated[
    list[str] | None, typer.Option("-x", "--exclude", help="Not these; patterns as for --limit.")
]
AskPass = Annotated[
    bool, typer.Option("--ask-pass", help="Ask once for the SSH password of all hosts.")
]
TransportName = Annotated[
    str, typer.Option("--transport", help="paramiko, or openssh: the ssh program itself.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Root = Annotated[str, typer.Option("--root", help="ipexctl's folder on the hosts.")]


def make_target(
    hostfile: Path | None,
    hosts: list[str] | None,
    ssh_config: Path | None,
    forks: int = 64,
    only: tuple[list[str] | None, list[str] | None] = (None, None),
    **more: Any,
) -> Any:
    """Hosts that nobody named are those of the settings; see `ipexctl config`."""
    from ipexctl.hosts.target import Target
    from ipexctl.local.settings import configured_hostfile

    limit, exclude = (tuple(patterns or ()) for patterns in only)
    if not hostfile and not hosts:
        hostfile = configured_hostfile(note)
    return Target(
        hostfile,
        tuple(hosts or ()),
        ssh_config,
        forks,
        limit=limit,
        exclude=exclude,
        note=note,
        **more,
    )


def note(text: str) -> None:
    printable = "".join(c if c.isprintable() else "?" for c in text)
    print(f"ipexctl: note: {printable}", file=sys.stderr)


class Done(Protocol):
    @property
    def exit_code(self) -> int: ...


D = TypeVar("D", bound=Done)


def end(
    done: D, document: Callable[[D], object], show: Callable[[D], None], *, json: bool
) -> NoReturn:
    """A command's last words, and its exit code."""
    if json:
        print_json(document(done))
    else:
        show(done)
    raise typer.Exit(done.exit_code)


def print_json(document: object) -> None:
    import json

    print(json.dumps(document, indent=2))
