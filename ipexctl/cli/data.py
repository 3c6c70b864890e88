"""data push, data ls, data rm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ipexctl.cli.options import Json, Root, Yes, end, on_hosts

data_app = typer.Typer(
    name="data", help="Folders that stay on the hosts: data sets, hub caches.",
    no_args_is_help=True, rich_markup_mode=None,
)  # fmt: skip


@data_app.command()
@on_hosts(names=False)
def push(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder on this machine.")],
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Name of the data, instead of the folder's."),
    ] = None,
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    no_relay: Annotated[
        bool, typer.Option("--no-relay", help="Send to each host from here, not from host to host.")
    ] = False,
    json: Json = False,
) -> None:
    """Put a folder on every host, for `run --data NAME`. Only missing files are sent."""
    from ipexctl.hosts.suggested_commands import command
    from ipexctl.ui.data import pushed_document, show_pushed
    from ipexctl.ui.install import View
    from ipexctl.verbs.data import push as verb

    with View(quiet=json) as view:
        pushed = verb(target, folder, name, view.progress(), root, relay=not no_relay)
    end(pushed, pushed_document, lambda p: show_pushed(p, command(target, "run", root)), json=json)


@data_app.command()
@on_hosts()
def ls(
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    json: Json = False,
) -> None:
    """The data on each host: version, size, and which hosts have it."""
    from ipexctl.hosts.suggested_commands import command
    from ipexctl.ui.data import listed_document, show_listed
    from ipexctl.verbs.data import listed

    found = listed(target, root)
    push = command(target, "data push", root)
    end(found, listed_document, lambda found: show_listed(found, push), json=json)


@data_app.command()
@on_hosts(names=False)
def rm(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the data, as `ipexctl data ls` shows it.")
    ],
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    check: Annotated[bool, typer.Option("--check", help="Only say what would go.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove data from the hosts. What a run is using stays."""
    from ipexctl.ui.confirm import removal_agreed
    from ipexctl.ui.data import removed_document, show_going, show_removed
    from ipexctl.verbs.data import remove

    agreed = removal_agreed(show_going, yes=yes)
    done = remove(target, name, None if check else agreed, root)
    end(done, removed_document, show_removed, json=json)
