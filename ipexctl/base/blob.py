"""A file identified by its content."""

from __future__ import annotations

from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Blob:
    """A file identified by its content."""

    name: str
    sha256: str
    size: int
