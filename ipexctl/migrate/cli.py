"""The options of `migrate`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ipexctl.cli.options import Json, print_json


def migrate(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH|COMMAND...",
            help="Scripts, shell or Accelerate files, or folders; or a command line.",
        ),
    ],
    json: Json = False,
) -> None:
    """Find uses of the discontinued Intel stack in files, and convert launcher command lines.

    No host is contacted, and no file is changed. The exit code is 1 if something was found.
    """
    from ipexctl.migrate.migrate import migrate as verb
    from ipexctl.migrate.migrate_text import migration_document, migration_text
    from ipexctl.terminal.console import print_text, stdout_console

    paths = [word for word in words if word != "--json"]
    if all(os.path.lexists(path) for path in paths):  # after a command line, --json belongs to that
        words, json = paths, json or "--json" in words
    done = verb(words)
    if json:
        print_json(migration_document(done))
    else:
        print_text(stdout_console(), migration_text(done))
    raise typer.Exit(done.exit_code)
