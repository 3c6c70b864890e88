"""The file systems of the folders that a run writes to."""

from __future__ import annotations

from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class DiskFacts:
    """Facts about a folder, or about its nearest existing parent."""

    root: str  # its absolute path
    free: int | None
    free_inodes: int | None
    filesystem: str
    noexec: bool | None
    writable: bool | None
    there: bool | None = None
    read_only: bool | None = None  # the file system, whatever the permissions are
    total: int | None = None
    source: str = ""  # the device, or server:/path
    point: str = ""  # where that is mounted
    real: str = ""  # `root` without links on the way
    owner: int | None = None  # the user id of the folder, or of the one above
