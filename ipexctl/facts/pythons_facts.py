"""The Python interpreters of a host."""

from __future__ import annotations

from dataclasses import field

from ipexctl.base.values import by, plain
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Python:
    """An interpreter found on the host."""

    path: str = field(metadata=by(plain, needed=True))
    version: tuple[int, ...]  # (3, 11, 4), or (3, 11) where the patch number is unknown
    lacks: tuple[str, ...] = ()  # modules of the standard library that were not built
