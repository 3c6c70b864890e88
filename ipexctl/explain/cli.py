"""The options of `explain`."""

from __future__ import annotations

import sys
import textwrap
from typing import Annotated

import typer

from ipexctl.cli.declared_command import command
from ipexctl.cli.options import Json, end_command, print_json


@command("More", 10, asks=False)
def explain(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="ID|NAME|LOGFILE|-",
            help="Check ID, known failure, log file, error message in quotes, or - for stdin. If "
            "omitted, list all checks and known failures.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Explain a check, a known failure, or an error log.

    Examples:
      ipexctl explain NET-001
      ipexctl explain run.log
      ipexctl explain 'Address already in use'
      python train.py 2>&1 | ipexctl explain -
    """
    from ipexctl.explain.explain import explain as verb
    from ipexctl.explain.explain import explainable_items, explanation_document
    from ipexctl.explain.explain_text import show_explanation
    from ipexctl.terminal.console import stdout_console

    console = stdout_console()

    if what is None:
        if json:
            print_json({"command": "explain", "known": dict(explainable_items())})
        else:
            width = console.width if console.is_terminal else sys.maxsize
            for name, title in explainable_items():
                print(textwrap.fill(f"{name:<24}  {title}", width, subsequent_indent=" " * 26))
        return
    end_command(
        verb(what, sys.stdin.buffer),
        explanation_document,
        lambda answer: show_explanation(answer, console),
        json=json,
    )
