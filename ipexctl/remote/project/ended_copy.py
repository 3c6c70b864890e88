"""The project copy of a run that has ended: the next run takes its unchanged files.

To rename a file costs a fraction of creating it again, and nothing is left to remove afterwards. A
file is unchanged if its inode, size and times are those that were noted when it was placed;
changing the content, the mode or the number of links of a file changes at least its ctime.
Nothing is taken from a run that is active, that the setting `copies` protects, or that began
before the last boot: what was not flushed to the disk may have been lost then.
"""

import json
import os
import stat

from ipexctl.common.files import read_json, write_atomic
from ipexctl.common.tolerant_reads import info_of, link_of, read_text
from ipexctl.remote.run_files import run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    Stamp = list[int]
    Row = list[Any]  # path, sha256, size, executable

PLACED = "placed"  # file in a run's folder: the stamps of its project copy
LOOKED_AT = 5  # ended runs that are compared with what the next run needs
SHARED = 0.5  # of the files must be in the ended run's copy to make it worthwhile


def stamp_of(info: "os.stat_result") -> "Stamp":
    return [info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns]


def encode(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def boot_id() -> str:
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def record_stamps(run: str, stamps: "dict[str, Stamp]") -> None:
    """Note inode, size and times of the files that were placed in the run's copy."""
    content = {"boot": boot_id(), "stamps": stamps}
    write_atomic(os.path.join(run, PLACED), json.dumps(content, separators=(",", ":")))


class EndedCopy:
    """The copy of one ended run, locked until `close`."""

    def __init__(self, folder: str, lock: int, rows: "dict[str, Row]", stamps: "dict[str, Stamp]"):
        self.work = os.fsencode(os.path.realpath(os.path.join(folder, "work")))
        self.lock = lock
        self.rows, self.stamps = rows, stamps
        self.real_folders = RealFolders(self.work)

    def close(self) -> None:
        os.close(self.lock)

    def shares_most(self, tree: "dict[str, Any]") -> bool:
        same = sum(1 for row in tree["files"] if self.rows.get(row[0]) == row)
        return same >= max(1, SHARED * len(tree["files"]))

    def path_of(self, name: str) -> bytes:
        # the name is one of a list that was checked when this run was laid out
        return self.work + b"/" + encode(name)

    def find_unchanged(self, files: "list[Row]") -> "set[str]":
        """Return the paths of the files that the copy has as they were placed."""
        unchanged, are_real = set(), {}  # type: set[str], dict[str, bool]
        for row in files:
            name = row[0]
            stamp = self.stamps.get(name)
            if stamp is None or self.rows.get(name) != row:
                continue
            path = self.path_of(name)
            try:
                if stamp_of(os.lstat(path)) != stamp:
                    continue
            except OSError:
                continue
            folder = name.rpartition("/")[0]
            if folder not in are_real:
                are_real[folder] = self.real_folders.is_real(path)
            if are_real[folder]:
                unchanged.add(name)
        return unchanged

    def whole_folders(self, tree: "dict[str, Any]", in_copy: "set[str]") -> "set[str]":
        """Return the folders of `tree` that the copy has with nothing changed, missing or added in
        them and below. To move one is a single rename."""
        targets = dict(tree["links"])
        children = {name: [] for name in tree["folders"]}  # type: dict[str, list[str]]
        paths = [row[0] for row in tree["files"]] + list(tree["folders"]) + list(targets)
        for path in paths:
            above = path.rpartition("/")[0]
            if above in children:
                children[above].append(path)
        whole = set()  # type: set[str]
        for name in sorted(tree["folders"], reverse=True):  # those below come first
            is_same = all(
                path in in_copy or path in whole or self.has_link(path, targets)
                for path in children[name]
            )
            if is_same and self.has_only(name, children[name]):
                whole.add(name)
        return whole

    def has_link(self, path: str, targets: "dict[str, str]") -> bool:
        return path in targets and link_of(self.path_of(path)) == encode(targets[path])

    def has_only(self, folder: str, paths: "list[str]") -> bool:
        path = self.path_of(folder)
        info = info_of(path)
        if info is None or info.st_mode != stat.S_IFDIR | 0o700:
            return False
        names = {encode(name.rpartition("/")[2]) for name in paths}
        return set(os.listdir(path)) == names and self.real_folders.is_real(path)

    def take_folder(self, name: str, path: bytes) -> bool:
        try:
            os.rename(self.path_of(name), path)
        except OSError:
            return False
        return True

    def take(self, row: "Row", path: bytes) -> "Stamp | None":
        """Move the file to `path` and return its new stamp. None: it is not there as it was."""
        name = row[0]
        try:
            os.rename(self.path_of(name), path)
        except OSError:
            return None
        stamp = stamp_of(os.lstat(path))
        if stamp[:3] == self.stamps[name][:3]:  # to rename it has changed its ctime
            return stamp
        os.unlink(path)
        return None


class RealFolders:
    """Check that folders below `top` are reached without a link: a rank can replace one with a
    link."""

    def __init__(self, top: bytes) -> None:
        self.known = {top: True}

    def is_real(self, path: bytes) -> bool:
        folder = os.path.dirname(path)
        if folder not in self.known:
            info = info_of(folder)
            is_folder = info is not None and stat.S_ISDIR(info.st_mode)
            self.known[folder] = is_folder and self.is_real(folder)
        return self.known[folder]


def find_ended_copy(root: str, run: str, tree: "dict[str, Any]", copies: int) -> "EndedCopy | None":
    """Find and lock the newest ended run whose copy holds most of the files of `tree`.

    `copies`: how many of the newest runs keep their copies, with this run among them.
    """
    newest_first = run_folders.run_ids(root)[::-1]
    folders = [os.path.join(root, "runs", name) for name in newest_first[max(copies, 1) :]]
    with_stamps = [path for path in folders if os.path.exists(os.path.join(path, PLACED))]
    this_boot = boot_id()
    for folder in with_stamps[:LOOKED_AT]:
        lock = run_folders.lock_run(folder) if folder != run else None
        if lock is None:
            continue
        copy = read_copy(folder, lock, this_boot)
        if copy and copy.shares_most(tree) and not has_processes(folder):
            return copy
        os.close(lock)
    return None


def has_processes(folder: str) -> bool:
    """Return whether a process of the run is left on this host, although its lock is free."""
    return os.path.basename(folder) in run_folders.marked_runs()


def read_copy(folder: str, lock: int, this_boot: str) -> "EndedCopy | None":
    placed = read_json(os.path.join(folder, PLACED))
    if not placed or not this_boot or placed.get("boot") != this_boot:
        return None
    if not isinstance(placed.get("stamps"), dict):  # ranks can write to the run's folder
        return None
    tree = read_json(os.path.join(folder, "tree"))
    if not tree:
        return None
    return EndedCopy(folder, lock, {row[0]: row for row in tree["files"]}, placed["stamps"])
