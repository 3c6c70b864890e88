"""Read mounts, and the file systems of the folders that a run writes to."""

import os

from ipexctl.common.tolerant_reads import read_text

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    Mount = tuple[str, str, list[str], str]  # mount point, type, options, source


def read_mounts(fs: str) -> "list[Mount]":
    """Return [(mount point, type, options, source)]; later ones cover earlier ones."""
    text = read_text(fs + "/proc/self/mounts") or read_text(fs + "/proc/mounts")
    words = (line.split(" ") for line in text.splitlines())
    rows = [row for row in words if len(row) >= 4]
    return [(row[1].replace("\\040", " "), row[2], row[3].split(","), row[0]) for row in rows]


def read_root_disk(root: str, mounts: "list[Mount]") -> "dict[str, Any]":
    """Describe the root folder, a part of which a command run as root may have made."""
    disk = read_disk(root, mounts)
    names = os.listdir(root) if disk["there"] and os.access(root, os.R_OK) else []
    for path in sorted(os.path.join(root, name) for name in names):
        is_folder = os.path.isdir(path) and not os.path.islink(path)  # its target may be shared
        if is_folder and not os.access(path, os.W_OK | os.X_OK):
            return dict(disk, writable=False, owner=_owner(path))
    return disk


def read_disk(root: str, mounts: "list[Mount]") -> "dict[str, Any]":
    """Describe the file system of the folder where the root is, or will be created."""
    existing = root
    while not os.path.isdir(existing) and existing != "/":
        existing = os.path.dirname(existing)
    target = os.path.realpath(existing)
    stat = statvfs_or_none(existing)
    best = ("", "", [], "")  # type: tuple[str, str, list[str], str]
    for mount in mounts:
        point = mount[0]
        contains = point == "/" or target == point or target.startswith(point + "/")
        if contains and len(point) >= len(best[0]):
            best = mount
    return {
        "root": root,
        "real": os.path.realpath(root),
        "there": existing == root,
        "free": stat.f_bavail * stat.f_frsize if stat else None,
        "free_inodes": stat.f_favail if stat and stat.f_files else None,
        "total": stat.f_blocks * stat.f_frsize if stat else None,
        "filesystem": best[1],
        "source": best[3],
        "point": best[0],
        "noexec": bool(stat.f_flag & os.ST_NOEXEC) if stat else None,
        "read_only": bool(stat.f_flag & os.ST_RDONLY) if stat else None,
        "writable": os.access(existing, os.W_OK | os.X_OK),
        "owner": _owner(existing),
    }


def _owner(path: str) -> "int | None":
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def statvfs_or_none(path: str) -> "os.statvfs_result | None":
    try:
        return os.statvfs(path)
    except OSError:
        return None
