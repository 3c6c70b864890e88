"""The settings of the kernel that concern memory."""

from __future__ import annotations

from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Kernel:
    thp: str = ""  # always, madvise, never
    numa_balancing: int | None = None
    zone_reclaim: int | None = None
    overcommit: int | None = None
    swappiness: int | None = None
