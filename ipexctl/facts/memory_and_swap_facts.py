"""The memory of a host, with swap and /dev/shm."""

from __future__ import annotations

from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class MemFacts:
    total: int | None
    available: int | None
    swap_total: int | None
    shm_total: int | None
    shm_free: int | None
    limit: int | None = None  # of the control group; None: no limit
    limit_left: int | None = None  # the rest of it that is still free
    # the NUMA nodes whose memory we may use; None: unknown
    mems: tuple[int, ...] | None = None
    swap_free: int | None = None
    commit_limit: int | None = None
    committed: int | None = None
    huge: int | None = None  # set aside as huge pages
    shm_there: bool | None = None
    shm_writable: bool | None = None
    shm_read_only: bool | None = None  # its file system is; without one, that of /dev
