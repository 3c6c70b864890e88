"""The options of `data push`, `data ls` and `data rm`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ipexctl.cli.declared_command import command_group
from ipexctl.cli.options import Check, Json, Root, Yes, end_command, on_hosts


@command_group("Files", 10)
def data() -> None:
    """Manage datasets and caches that stay on the hosts.

    Examples:
      ipexctl data push data/imagenet
      ipexctl run --data imagenet train.py
    """


NoRelay = Annotated[
    bool,
    typer.Option("--no-relay", help="Send to every host from this machine, not from host to host."),
]


@data.command(
    interrupted="the hosts keep the data they had; run the same command again: it continues where "
    "it stopped"
)
@on_hosts(names=False)
def push(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Local folder to copy.")],
    name: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="NAME", help="Dataset name (default: the name of the folder)."
        ),
    ] = None,
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    no_relay: NoRelay = False,
    json: Json = False,
) -> None:
    """Copy a folder to every host, for `ipexctl run --data NAME`.

    Only files that a host lacks are sent.

    Examples:
      ipexctl data push data/imagenet
      ipexctl data push ~/.cache/huggingface --as hub
    """
    from ipexctl.data.data import push_dataset as verb
    from ipexctl.data.data_text import pushed_document, show_pushed
    from ipexctl.machines.suggested_commands import suggest_command
    from ipexctl.terminal.progress_view import ProgressView

    with ProgressView(quiet=json) as progress:
        pushed = verb(target, folder, name, progress, root, relay=not no_relay)
    end_command(
        pushed,
        pushed_document,
        lambda outcome: show_pushed(outcome, suggest_command(target, "run", root)),
        json=json,
    )


@data.command()
@on_hosts(names=False)
def pull(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="Repository on the hub, hf:ORG/NAME[@REVISION], or an address."
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Dataset name (default: that of the source)."),
    ] = None,
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    include: Annotated[
        list[str] | None,
        typer.Option("--include", metavar="GLOB", help="Fetch only these files (repeatable)."),
    ] = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option("--leave-out", metavar="GLOB", help="Skip these files (repeatable)."),
    ] = None,
    unpack: Annotated[
        bool,
        typer.Option("--unpack", help="Unpack .tar, .tar.gz, .tar.bz2, .tar.xz and .zip files."),
    ] = False,
    no_relay: NoRelay = False,
    check: Annotated[
        bool, typer.Option("--check", help="Show what would be fetched; fetch nothing.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Fetch a model or dataset once, and copy it to every host.

    From the Hugging Face hub, or from an address such as https://... or s3://...

    Examples:
      ipexctl data pull hf:distilbert/distilbert-base-uncased
      ipexctl data pull hf:datasets/stanfordnlp/imdb --include '*.parquet'
    """
    from ipexctl.data.data_text import confirm_pull, pulled_document, show_pulled
    from ipexctl.data.pull import Pull
    from ipexctl.data.pull import pull_dataset as verb
    from ipexctl.machines.suggested_commands import suggest_command
    from ipexctl.terminal.progress_view import ProgressView

    with ProgressView(quiet=json) as progress:
        ask = None if check else confirm_pull(yes=yes)
        patterns = tuple(include or ()), tuple(leave_out or ())
        request = Pull(source, name or "", *patterns, not no_relay, unpack, ask)
        pulled = verb(target, request, progress, root)
    end_command(
        pulled,
        pulled_document,
        lambda outcome: show_pulled(outcome, suggest_command(target, "run", root)),
        json=json,
    )


@data.command()
@on_hosts()
def ls(
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    json: Json = False,
) -> None:
    """List the datasets on the hosts, with versions and sizes.

    Examples:
      ipexctl data ls -f hosts
    """
    from ipexctl.data.data import list_datasets
    from ipexctl.data.data_text import listed_document, show_listed
    from ipexctl.machines.suggested_commands import suggest_command

    listing = list_datasets(target, root)
    push = suggest_command(target, "data push", root)
    end_command(listing, listed_document, lambda listing: show_listed(listing, push), json=json)


@data.command(
    interrupted="datasets that are not removed yet are intact; run the same command again"
)
@on_hosts(names=False)
def rm(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Dataset name, as shown by `ipexctl data ls`.")
    ],
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    check: Check = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove a dataset from the hosts, except where a run is using it.

    Examples:
      ipexctl data rm imagenet --check
      ipexctl data rm imagenet --yes
    """
    from ipexctl.data.data import remove_dataset
    from ipexctl.data.data_text import removed_document, show_going, show_removed
    from ipexctl.terminal.confirm import removal_agreed

    agreed = removal_agreed(show_going, yes=yes)
    removed = remove_dataset(target, name, None if check else agreed, root)
    end_command(removed, removed_document, show_removed, json=json)
