"""List environments and blobs below ROOT, which of them are needed, and their sizes."""

import glob
import os

from ipexctl.common.files import read_json
from ipexctl.common.tolerant_reads import info_of, names_in
from ipexctl.remote.blobs import blobs
from ipexctl.remote.install import env_marks

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Container, Iterator

    Sizes = dict[tuple[int, int], int]


def env_keys(root: str) -> "list[str]":
    return sorted(filter(env_marks.KEY.match, names_in(os.path.join(root, "envs"))))


def needed_blobs(root: str, removed: "Container[str]" = ()) -> "set[str]":
    """Return the sha256 of all blobs that the environments need, except the `removed` ones."""
    shas = set()  # type: set[str]
    for key in env_keys(root):
        mark = read_json(os.path.join(env_marks.env_folder(root, key), env_marks.OK))
        if mark and key not in removed:
            shas.update(mark.get("blobs", ()))
    return shas


def size_of(path: str, seen: "Sizes | None" = None) -> int:
    """Return the bytes on disk, each file once however many names it has. Files in `seen`, a dict,
    do not count; the others are added to it."""
    seen = {} if seen is None else seen
    new_files = {file: size for file, size in file_sizes(path).items() if file not in seen}
    seen.update(new_files)
    return sum(new_files.values())


def file_sizes(path: str) -> "Sizes":
    """Return {(device, inode): bytes on disk} of the files below a folder, or of a file."""
    return {(info.st_dev, info.st_ino): info.st_blocks * 512 for info in file_infos(path)}


class Freed:
    """Count what removing folders one after the other frees: a file goes with its last name."""

    def __init__(self) -> None:
        self.names = {}  # type: dict[tuple[int, int], int]  # that are left

    def add_removed(self, folder: str) -> int:
        """Return the bytes that are freed if this folder is removed, too."""
        size = 0
        for info in file_infos(folder):
            file = info.st_dev, info.st_ino
            self.names[file] = self.names.get(file, info.st_nlink) - 1
            size += 0 if self.names[file] else info.st_blocks * 512
        return size


def file_infos(path: str) -> "Iterator[os.stat_result]":
    """Yield the lstat of every file below a folder, or of a file."""
    walk = os.walk(path) if os.path.isdir(path) else [(os.path.dirname(path), [], [path])]
    for folder, _, files in walk:
        for name in files:
            info = info_of(os.path.join(folder, name))
            if info:
                yield info


def kept_blobs(root: str) -> "list[tuple[str, int, float]]":
    """Return (path, size, modified) of every blob."""
    top = os.path.join(root, "blobs", "sha256")
    rows = []
    for path in glob.glob(os.path.join(glob.escape(top), "[0-9a-f][0-9a-f]", "*")):
        folder, name = os.path.split(path)
        if not blobs.SHA.match(name) or os.path.islink(folder) or os.path.islink(top):
            continue
        info = info_of(path)
        if info:
            rows.append((path, info.st_size, info.st_mtime))
    return rows
