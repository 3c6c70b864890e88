"""The options of `migrate`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ipexctl.cli.declared_command import command
from ipexctl.cli.options import Json, end_command


@command("More", 20, asks=False, keeps_rest=True)
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
    """Find uses of the discontinued Intel stack in files. It also converts launcher command lines.

    No host is contacted, and no file is changed. The exit code is 1 if something was found.

    Examples:
      ipexctl migrate train.py scripts/
      ipexctl migrate mpirun -n 4 -ppn 2 python train.py
    """
    from ipexctl.migrate.migrate import migrate as verb
    from ipexctl.migrate.migrate_text import migration_document, migration_text
    from ipexctl.terminal.console import print_text, stdout_console

    paths = [word for word in words if word != "--json"]
    if all(os.path.lexists(path) for path in paths):  # after a command line, --json belongs to that
        words, json = paths, json or "--json" in words
    end_command(
        verb(words),
        migration_document,
        lambda migration: print_text(stdout_console(), migration_text(migration)),
        json=json,
    )
