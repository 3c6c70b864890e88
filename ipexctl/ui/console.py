"""The two consoles. Rich knows NO_COLOR, FORCE_COLOR, TERM=dumb and pipes by itself."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO

from rich.console import Console
from rich.text import Text

from ipexctl.core.wrapping import wrapped
from ipexctl.local.environment import environment


def console_on(stream: IO[str]) -> Console:
    # CLICOLOR_FORCE is the BSD spelling of FORCE_COLOR; NO_COLOR wins over both
    forced = environment().get("CLICOLOR_FORCE", "0") != "0" and not environment().get("NO_COLOR")
    force = True if forced else None
    live = False if environment().get("CI") else force
    return Console(file=stream, force_terminal=live, markup=False, emoji=False, highlight=False)


def print_lines(console: Console, lines: Iterable[Text]) -> None:
    """One line each, however wide: what is in them may be copied."""
    for line in lines:
        console.print(line, soft_wrap=True)


def print_hanging(console: Console, text: str, indent: str = "  ", style: str = "") -> None:
    """Folded between words on a terminal, one line elsewhere; commands in it stay whole."""
    for line in wrapped(text, console.width, indent) if console.is_terminal else [text]:
        console.print(Text(line, style), soft_wrap=True)


def print_words(console: Console, text: Text | str) -> None:
    """For what nobody copies: folded between words on a terminal, one line elsewhere."""
    console.print(text, soft_wrap=not console.is_terminal)


def is_dumb() -> bool:
    return environment().get("TERM") in ("dumb", "unknown")


def stdout_console() -> Console:
    return console_on(sys.stdout)


def stderr_console() -> Console:
    return console_on(sys.stderr)
