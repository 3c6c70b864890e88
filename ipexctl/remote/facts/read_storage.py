"""Read mounts, and the file systems of the folders that a run writes to."""

import os

from ipexctl.common.tolerant_reads import read_text


def read_mounts(fs):
    """Return [(mount point, type, options, source)]; later ones cover earlier ones."""
    text = read_text(fs + "/proc/self/mounts") or read_text(fs + "/proc/mounts")
    words = (line.split(" ") for line in text.splitlines())
    rows = [w for w in words if len(w) >= 4]
    return [(w[1].replace("\\040", " "), w[2], w[3].split(","), w[0]) for w in rows]


def read_root_disk(root, mounts):
    """Describe the root folder, a part of which a command run as root may have made."""
    found = read_disk(root, mounts)
    parts = os.listdir(root) if found["there"] and os.access(root, os.R_OK) else []
    for path in sorted(os.path.join(root, name) for name in parts):
        ours = os.path.isdir(path) and not os.path.islink(path)  # its target may be shared
        if ours and not os.access(path, os.W_OK | os.X_OK):
            return dict(found, writable=False, owner=_owner(path))
    return found


def read_disk(root, mounts):
    """Describe the file system of the folder where the root is, or will be created."""
    there = root
    while not os.path.isdir(there) and there != "/":
        there = os.path.dirname(there)
    real = os.path.realpath(there)
    stat = statvfs_or_none(there)
    best = ("", "", [], "")  # type: tuple[str, str, list[str], str]
    for mount in mounts:
        point = mount[0]
        inside = point == "/" or real == point or real.startswith(point + "/")
        if inside and len(point) >= len(best[0]):
            best = mount
    return {
        "root": root,
        "real": os.path.realpath(root),
        "there": there == root,
        "free": stat.f_bavail * stat.f_frsize if stat else None,
        "free_inodes": stat.f_favail if stat and stat.f_files else None,
        "total": stat.f_blocks * stat.f_frsize if stat else None,
        "filesystem": best[1],
        "source": best[3],
        "point": best[0],
        "quota": any(o.endswith("quota") and not o.startswith("no") for o in best[2]),
        "noexec": bool(stat.f_flag & os.ST_NOEXEC) if stat else None,
        "read_only": bool(stat.f_flag & os.ST_RDONLY) if stat else None,
        "writable": os.access(there, os.W_OK | os.X_OK),
        "owner": _owner(there),
    }


def _owner(path):
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def statvfs_or_none(path):
    try:
        return os.statvfs(path)
    except OSError:
        return None
