"""The limits of a login and of its control group."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ipexctl.base.values import by, count_or_none
from ipexctl.quick_dataclass import dataclass

NO_LIMIT = 1 << 62


def _read_limit(value: Any) -> int | None:
    """Return a limit: -1, and on some kernels the largest number, mean no limit."""
    endless = isinstance(value, int) and (value == -1 or value >= NO_LIMIT)
    return NO_LIMIT if endless else count_or_none(value)


@dataclass(frozen=True)
class Limit:
    """A limit; NO_LIMIT if there is none."""

    soft: int = field(metadata=by(_read_limit, needed=True))
    hard: int = field(metadata=by(_read_limit, needed=True))


@dataclass(frozen=True)
class UserLimits:
    nofile: Limit | None = None
    nproc: Limit | None = None
    file_size: Limit | None = None
    stack: Limit | None = None
    address_space: Limit | None = None
    cpu_seconds: Limit | None = None
    pids: int | None = None  # of the control group
