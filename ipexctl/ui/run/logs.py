"""What `logs` shows: `node02 r05 | text`, or the text alone where one rank is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from ipexctl.core.run.listed_runs import Run
from ipexctl.core.run.run_state import without_colour
from ipexctl.ui.console import print_lines, stderr_console, stdout_console
from ipexctl.ui.install import not_shown
from ipexctl.ui.run.run_text import RESET, closed, colour_of, write
from ipexctl.verbs.logs import Read, Show


def lines(*, alone: bool) -> Show:
    console = stdout_console()
    colour = console.is_terminal and not console.no_color

    def show(run: Run, host: str, rank: int, texts: Sequence[str]) -> None:
        wide = max((len(name) for name in run.about.hosts), default=0)
        digits = max(2, len(str(max(0, run.about.ranks - 1))))
        prefix = f"{host:{wide}} r{rank:0{digits}d}"
        prefix = f"\x1b[{colour_of(rank)}m{prefix}{RESET} | " if colour else f"{prefix} | "
        spelled: Callable[[str], str] = closed if colour else without_colour
        write("".join(f"{'' if alone else prefix}{spelled(text)}\n" for text in texts))

    return show


def json_lines(run: Run, host: str, rank: int, texts: Sequence[str]) -> None:
    """One object for each line, as `run --json` has them."""
    events = ({"event": "line", "host": host, "rank": rank, "text": text} for text in texts)
    write("".join(f"{json.dumps({'schema_version': 1, **event})}\n" for event in events))


def show_missing(read: Read) -> None:
    """Hosts that could not be asked."""
    print_lines(stderr_console(), not_shown(read.recaps, read.answered))
