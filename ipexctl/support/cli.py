"""The options of `support`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ipexctl.cli.declared_command import command
from ipexctl.cli.options import Json, Root, end_command, on_hosts


@command("More", 30)
@on_hosts(names=False)
def support(
    run: Annotated[
        str,
        typer.Argument(metavar="[RUN]", help="Add the record of this run: name, run ID, or @last."),
    ] = "",
    *,
    target: Any,
    root: Root = "~/.ipexctl",
    logs: Annotated[
        bool,
        typer.Option(
            "--logs", help="Add the command line and the last 200 lines of each rank of RUN."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Write a redacted support bundle into this folder.

    It contains named fields only, with aliases for hosts, users and addresses. Output of ranks is
    added with --logs; values of named secrets are masked there. Look through it before you send it.

    Examples:
      ipexctl support
      ipexctl support bert --logs              # add a run and its last lines
    """
    from ipexctl.errors import InputError
    from ipexctl.support.support import show_support_file, support_document
    from ipexctl.support.support import support as verb

    if logs and not run:
        raise InputError(
            "--logs: no run is given", hint="ipexctl support @last --logs", slug="run-not-given"
        )
    end_command(
        verb(target, run, root, output=logs), support_document, show_support_file, json=json
    )
