"""The version table, read from where it was installed."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ipexctl.core.rows import Row, parse_table


@cache
def table() -> tuple[Row, ...]:
    return parse_table(files("ipexctl").joinpath("core/stacks.toml").read_text("utf-8"))
