"""The options of `explain`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ipexctl.cli.options import Json, print_json


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
    """Explain a check, a known failure, or an error log."""
    from ipexctl.explain.explain import explain as verb
    from ipexctl.explain.explain import explainable_items, explanation_document

    if what is None:
        if json:
            print_json({"command": "explain", "known": dict(explainable_items())})
        else:
            print("\n".join(f"{name:<24}  {title}" for name, title in explainable_items()))
        return
    found = verb(what, sys.stdin.buffer)
    if json:
        print_json(explanation_document(found))
    else:
        from ipexctl.explain.explain_text import show_explanation
        from ipexctl.terminal.console import stdout_console

        show_explanation(found, stdout_console())
    raise typer.Exit(found.exit_code)
