"""A question at the terminal. What it is about is shown before, on the same stream."""

from __future__ import annotations

import sys
from typing import TextIO

from ipexctl.errors import InputError

DECLINED = "nothing was changed: the answer was no"


def confirm(
    question: str, stdin: TextIO, refusal: InputError | None = None, out: TextIO | None = None
) -> bool:
    """Enter means yes after `[Y/n]`; Ctrl-D means no. Raises `refusal` without a terminal."""
    if not stdin.isatty():
        raise refusal or InputError(
            "cannot ask for confirmation: stdin is not a terminal (use --yes)",
            why="nothing was changed",
        )
    print(question, end="", file=out or sys.stderr, flush=True)
    said = stdin.readline()
    if not said:
        print(file=out or sys.stderr)
    word = said.strip().lower()
    return word in ("y", "yes") or (said != "" and not word and "[Y/" in question)
