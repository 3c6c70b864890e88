"""A question at the terminal. What it is about is shown before, on the same stream."""

from __future__ import annotations

import sys
from typing import TextIO

from ipexctl.errors import InputError


def confirm(question: str, stdin: TextIO, refusal: InputError, out: TextIO | None = None) -> bool:
    """Enter means yes after `[Y/n]`; Ctrl-D means no. Raises `refusal` without a terminal."""
    if not stdin.isatty():
        raise refusal
    print(question, end="", file=out or sys.stderr, flush=True)
    said = stdin.readline()
    if not said:
        print(file=out or sys.stderr)
    word = said.strip().lower()
    return word in ("y", "yes") or (said != "" and not word and "[Y/" in question)
