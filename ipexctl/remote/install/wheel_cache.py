"""Keep unpacked wheels: uv's cache, whose files the environments of this root share.

A change to a shared file affects every environment, so these files are read-only. Their owner can
still write to them: the cache is used only if it is exactly as the last build has left it.
Its mark is written when all of it is on the disk.
"""

import hashlib
import os
import stat

from ipexctl.common.files import read_json, remove_path
from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blobs
from ipexctl.remote.install import env_marks

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    Wheel = tuple[str, str]  # its name, its sha256

WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class WheelCache:
    """The cache during one build. The caller holds ROOT's lock. Before keep() it has no mark."""

    def __init__(self, root: str, uv: str, wheels: "list[Wheel]", fresh: bool) -> None:
        self.root, self.uv = root, uv
        root_folder.make_subfolder(root, "blobs", "unpacked")
        top = cache_folder(root)
        self.cache, self.links = os.path.join(top, "cache"), os.path.join(top, "wheels")
        self.mark = os.path.join(top, "mark")
        self.before = {} if fresh else self.find_unpacked()
        if any(self.before.get(file, [sha])[0] != sha for file, sha in wheels):
            self.before = {}  # uv knows them by their names
        self.begun, self.unpacked = False, []  # type: bool, list[Wheel]

    def find_unpacked(self) -> "dict[str, list[Any]]":
        """Return {file: [sha256, stamp]} of the wheels that are certainly unpacked."""
        mark = read_json(self.mark) or {}
        try:
            if mark["uv"] == self.uv and mark["digest"] == fingerprint_cache(self.cache)[0]:
                wheels: "dict[str, list[Any]]" = mark["wheels"]
                return wheels
        except (OSError, KeyError):
            pass
        return {}

    def find_lacking(self, wheels: "list[Wheel]") -> "list[Wheel]":
        """Return the wheels not unpacked yet. A blob sent again may be unpacked again."""
        rows = ((file, sha, [sha, blob_stamp(self.root, sha)]) for file, sha in wheels)
        return [(file, sha) for file, sha, mark in rows if self.before.get(file) != mark]

    def make_empty_links(self) -> str:
        """Return an empty folder for links to blobs under the names of wheels. uv needs the same
        path each time, and a hard link would change a blob's stamp."""
        remove_path(self.links)
        os.mkdir(self.links, 0o700)
        return self.links

    def begin(self, wheels: "list[Wheel]") -> None:
        """Link these wheels, and note that uv is about to write to the cache."""
        if not self.begun:
            blobs.try_unlink(self.mark)
            if not self.before:
                remove_path(self.cache)
        self.begun = True
        for file, sha in wheels:
            os.symlink(blobs.path_of(self.root, sha), os.path.join(self.links, file))

    def note_unpacked(self, wheels: "list[Wheel]") -> None:
        self.unpacked += wheels

    def drop(self) -> None:
        if self.begun:
            remove_cache(self.root)

    def keep(self) -> None:
        """Keep the unpacked wheels, which are on the disk: protect them and write the mark."""
        if not self.begun:
            return
        digest, shared = fingerprint_cache(self.cache)
        if not shared:  # copies would take their room twice
            remove_cache(self.root)
            return
        for path, mode in shared:
            if mode & WRITE:
                os.chmod(path, mode & ~WRITE)
        wheels = dict(self.before)
        wheels.update((file, [sha, blob_stamp(self.root, sha)]) for file, sha in self.unpacked)
        mark = {"uv": self.uv, "digest": digest, "wheels": wheels}
        env_marks.write_mark(self.mark, mark)


def cache_folder(root: str) -> str:
    return os.path.join(root, "blobs", "unpacked")


def remove_cache(root: str) -> None:
    """Remove the cache. Environments keep their files, which are hard links."""
    blobs.try_unlink(os.path.join(cache_folder(root), "mark"))  # first, should this be cut short
    remove_path(cache_folder(root))


def blob_stamp(root: str, sha: str) -> "list[int] | None":
    """Return the stamp of a blob as a list; None if it does not exist."""
    try:
        return list(blobs.stamp_of(os.stat(blobs.path_of(root, sha))))
    except OSError:
        return None


def fingerprint_cache(folder: str) -> "tuple[str, list[tuple[str, int]]]":
    """Return a hash of the state of all files below, and (path, mode) of those with several names.

    Modes and change times are left out: both change with every environment.
    """
    lines, shared, todo = [], [], [folder]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                    continue
                info = entry.stat(follow_symlinks=False)
                numbers = (info.st_ino, info.st_size, info.st_mtime_ns)
                lines.append(os.fsencode("%r %d %d %d\n" % ((entry.path,) + numbers)))
                if info.st_nlink > 1 and stat.S_ISREG(info.st_mode):
                    shared.append((entry.path, stat.S_IMODE(info.st_mode)))
    return hashlib.sha256(b"".join(sorted(lines))).hexdigest(), shared
