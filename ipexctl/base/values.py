"""Validate values from outside: invalid ones become "", None or (); nothing is raised."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ipexctl.common.message import HUGE
from ipexctl.errors import is_shown

_CPUS = re.compile(r"\s*(\d{1,18})(?:-(\d{1,18}))?\s*", re.ASCII)
_ODD = re.compile(r"[^A-Za-z0-9._:@%+-]")
MOST_ENTRIES = 8192  # entries of any list that we accept from a host

Reader = Callable[[Any], Any]


def by(reader: Reader, *, key: str = "", needed: bool = False) -> dict[str, Any]:
    """Return the metadata of a field that is read by a reader of its own, or under another name
    (`key`). A row of a list is left out if a `needed` field is unknown."""
    return {"reader": reader, "key": key, "needed": needed}


def matching_text(form: re.Pattern[str]) -> Reader:
    """Return a reader of texts of this form, which may become parts of paths or commands."""
    return lambda value: value if isinstance(value, str) and form.fullmatch(value) else None


def plain(value: Any, limit: int = 4096) -> str:
    """Return text without control characters; "" for anything that is not text."""
    if not isinstance(value, str):
        return ""
    text = value[:limit]
    if text.isascii() and text.isprintable():
        return text.strip()
    return "".join(filter(is_shown, text)).strip()


def command_safe_name(value: Any) -> str:
    """Return a name for use in a command; characters that such names never have become ?"""
    return _ODD.sub("?", plain(value, 255))


def count_or_none(value: Any) -> int | None:
    """Return the number if it is possible as a size, a count or an id."""
    ok = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < HUGE
    return value if ok else None


def list_of(value: Any) -> list[Any]:
    return value[:MOST_ENTRIES] if isinstance(value, list) else []


def texts_of(value: Any) -> tuple[str, ...]:
    return tuple(text for text in map(plain, list_of(value)) if text)


def number_or_none(value: Any) -> float | None:
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < HUGE
    return float(value) if ok else None


def positive_or_none(value: Any) -> float | None:
    return number_or_none(value) or None


def counts_of(value: Any) -> tuple[int, ...]:
    return tuple(n for n in map(count_or_none, list_of(value)) if n is not None)


def int_of(text: Any) -> int | None:
    """Return the number of 85, "85" or "0x41"."""
    if isinstance(text, int):
        return count_or_none(text)
    text = plain(text, 40)
    try:
        return count_or_none(int(text, 16 if text.startswith("0x") else 10))
    except ValueError:
        return None


def cpu_list(text: Any) -> tuple[int, ...]:
    """Return (0, 1, 2, 3, 8) for "0-3,8"; () for a text that is not such a list."""
    cpus: list[int] = []
    for part in plain(text, 1 << 16).split(","):
        match = _CPUS.fullmatch(part)
        if not match or len(cpus) > MOST_ENTRIES:
            return ()
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first > MOST_ENTRIES:
            return ()
        cpus.extend(range(first, last + 1))
    return tuple(cpus)
