"""The known failures of core/causes.toml, read once."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ipexctl.core.causes import Cause, parse


@cache
def failures() -> tuple[Cause, ...]:
    """All of them, in the order of docs/failures.md."""
    return parse(files("ipexctl").joinpath("core/causes.toml").read_text("utf-8"))
