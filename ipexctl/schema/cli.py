"""The options of `schema`."""

from __future__ import annotations

from typing import Annotated

import typer

from ipexctl.cli.declared_command import command


@command("More", 50, asks=False)
def schema(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="Print this schema instead: settings (for ipexctl.toml) or play.",
        ),
    ] = "",
) -> None:
    """Print the lines that enable completion in editors.

    They are the first lines of ipexctl.toml and of plays.

    Examples:
      ipexctl schema
      ipexctl schema settings > ipexctl.schema.json
    """
    from ipexctl.errors import unknown_value
    from ipexctl.schema.schema_files import LINES, schema_file, schema_line

    if not name:
        print(f"ipexctl.toml  {schema_line('settings')}\nplays         {schema_line('play')}")
    elif name in LINES:
        print(schema_file(name).read_text("utf-8"), end="")
    else:
        raise unknown_value("NAME", name, LINES)
