"""What each example prints as its last line on every rank."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

LAST = re.compile(r"world size (\d+), loss (\d+\.\d+) -> (\d+\.\d+)$")


@dataclass(frozen=True)
class Loss:
    world: int
    first: float
    last: float


def losses(lines: Iterable[str]) -> list[Loss]:
    """One for each rank."""
    found = (match.groups() for match in map(LAST.match, lines) if match)
    return [Loss(int(world), float(first), float(last)) for world, first, last in found]
