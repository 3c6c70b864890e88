"""Quote argv as one string. No other module quotes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from ipexctl.errors import is_shown


def quote(argv: Sequence[str]) -> str:
    return " ".join(shlex.quote(word) for word in argv)


def quote_for_pasting(argv: tuple[str, ...]) -> str:
    """Quote for a person to read and paste: control characters are spelled for bash and zsh."""
    return " ".join(shlex.quote(a) if all(map(is_shown, a)) else _ansi_quoted(a) for a in argv)


def _ansi_quoted(word: str) -> str:
    text = re.sub(r"[\\']", r"\\\g<0>", word)
    return "$'" + "".join(char if is_shown(char) else _escape_letter(char) for char in text) + "'"


def _escape_letter(letter: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))
