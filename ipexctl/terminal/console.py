"""The two consoles. Rich itself handles NO_COLOR, FORCE_COLOR, TERM=dumb and pipes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import IO

from rich.console import Console
from rich.text import Text

from ipexctl.base.wrapping import wrap_text
from ipexctl.errors import printable_text
from ipexctl.local.environment import environment


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # Rich would end the command: its caller knows whether to continue


def console_on(stream: IO[str]) -> Console:
    # CLICOLOR_FORCE is the BSD spelling of FORCE_COLOR; NO_COLOR wins over both
    forced = environment().get("CLICOLOR_FORCE", "0") != "0" and not environment().get("NO_COLOR")
    force = True if forced else None
    tty = False if environment().get("CI") else force
    return _Console(file=stream, force_terminal=tty, markup=False, emoji=False, highlight=False)


def print_lines(console: Console, lines: Iterable[Text], indent: str = "") -> None:
    """Print lines: wrapped between words on a terminal, one line each elsewhere; commands in them
    are not broken. Continuation lines have `indent`, or two more blanks than the first one."""
    for line in map(without_controls, lines):
        for part in _fold_line(line, console.width, indent) if console.is_terminal else [line]:
            console.print(part, soft_wrap=True)


def without_controls(line: Text) -> Text:
    """Remove control characters, which may come from hosts; the colours are our own."""
    text = printable_text(line.plain)
    return line if text == line.plain else Text(text, line.style)


def print_text(console: Console, text: str) -> None:
    """Print the lines of `text`, as `print_lines` does."""
    print_lines(console, map(Text, text.splitlines()))


def _fold_line(line: Text, width: int, indent: str) -> Iterator[Text]:
    """Yield the parts of a line that fit the width, with their styles."""
    plain = re.sub(r"\s", " ", line.plain)
    if line.cell_len <= width or not plain.strip():
        yield line
        return
    indent = indent or " " * (len(plain) - len(plain.lstrip()) + 2)
    end = 0
    for part in wrap_text(plain, width, indent):
        words = part.removeprefix(indent) if end else part
        prefix = indent if end else ""
        if (start := plain.find(words, end)) < 0:  # a comment goes on
            prefix, words = f"{indent}# ", words.removeprefix("# ")
            start = plain.index(words, end)
        end = start + len(words)
        yield Text(prefix, line.style) + line[start:end]


def is_dumb() -> bool:
    """Detect a dumb terminal, also behind a pipe, unlike Rich."""
    return environment().get("TERM") in ("dumb", "unknown")


def stdout_console() -> Console:
    return console_on(sys.stdout)


def stderr_console() -> Console:
    return console_on(sys.stderr)
