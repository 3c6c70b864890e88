"""The known failures of the installed package, read once."""

from __future__ import annotations

from functools import cache

from ipexctl.explain.causes.causes import Cause, parse_causes
from ipexctl.local.shipped_tables import read_package_file


@cache
def known_failures() -> tuple[Cause, ...]:
    """Return the known failures, in the order of their page."""
    return parse_causes(read_package_file("explain/causes/causes.toml"))
