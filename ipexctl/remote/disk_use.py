"""Sizes on disk of files and folders."""

import os

from ipexctl.common.tolerant_reads import info_of

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterator

    Sizes = dict[tuple[int, int], int]


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
