"""Positions in the user's texts."""

from __future__ import annotations

from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Place:
    """A position in a text of the user, 1-based."""

    source: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"
