"""The version table and the known failures, read once from the installed package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ipexctl.core.known_failures.causes import Cause, parse
from ipexctl.core.stack.version_table import Row, parse_table


@cache
def table() -> tuple[Row, ...]:
    return parse_table(_text("core/stack/stacks.toml"))


@cache
def failures() -> tuple[Cause, ...]:
    """In the order of docs/failures.md."""
    return parse(_text("core/known_failures/causes.toml"))


def _text(path: str) -> str:
    return files("ipexctl").joinpath(path).read_text("utf-8")
