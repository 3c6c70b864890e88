"""The options of migrate."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ipexctl.cli.options import Json, print_json
from ipexctl.errors import InputError

_OWN = ("--diff", "--write", "--json")  # in the order of the arguments


def migrate(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH|COMMAND...",
            help="Scripts, notebooks, hostfiles, Slurm, Accelerate or Kubernetes files, or "
            "folders; or a command line.",
        ),
    ],
    diff: Annotated[
        bool, typer.Option("--diff", help="Print the edits of --write as a unified diff.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Apply the edits that cannot change what the code does.")
    ] = False,
    json: Json = False,
) -> None:
    """Find uses of the discontinued Intel stack in files, and convert launcher command lines.

    No host is contacted. The exit code is 1 if something was found and not fixed.
    """
    from ipexctl.migrate.migrate import migrate as verb
    from ipexctl.migrate.migrate_text import diff as diff_text
    from ipexctl.migrate.migrate_text import document, text
    from ipexctl.terminal.console import print_text, stdout_console

    words, late = _options_behind(words)
    asked = zip((diff, write, json), _OWN, strict=True)
    diff, write, json = (given or name in late for given, name in asked)
    if diff and (write or json):
        raise InputError(
            "--diff cannot be combined with --write or --json",
            hint="use one of them",
            slug="options-conflict",
        )
    done = verb(words, write=write)
    if json:
        print_json(document(done))
    elif diff:
        sys.stdout.write(diff_text(done))
    else:
        print_text(stdout_console(), text(done))
    raise typer.Exit(done.exit_code)


def _options_behind(words: list[str]) -> tuple[list[str], list[str]]:
    """Own options behind paths. Behind a command line they belong to it."""
    paths = [word for word in words if word not in _OWN]
    if all(os.path.lexists(path) for path in paths):
        return paths, [word for word in words if word in _OWN]
    return words, []
