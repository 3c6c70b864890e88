"""Environments and blobs below ROOT, and their size on the disk."""

import glob
import os

from ipexctl.remote.blobs import blobs
from ipexctl.remote.install import env_marks


def env_keys(root):
    try:
        found = os.listdir(os.path.join(root, "envs"))
    except OSError:
        return []
    return sorted(name for name in found if env_marks.KEY.match(name))


def size_of(folder):
    """Bytes on the disk, each file once however many names it has, here or elsewhere."""
    return sum(file_sizes(folder).values())


def file_sizes(folder):
    """{(device, inode): bytes on the disk}."""
    return {(i.st_dev, i.st_ino): i.st_blocks * 512 for i in file_infos(folder)}


class Freed:
    """What folders free that are removed one after the other: a file goes with its last name."""

    def __init__(self):
        self.names = {}  # type: dict[tuple[int, int], int]  # that are left

    def by(self, folder):
        size = 0
        for info in file_infos(folder):
            file = info.st_dev, info.st_ino
            self.names[file] = self.names.get(file, info.st_nlink) - 1
            size += 0 if self.names[file] else info.st_blocks * 512
        return size


def file_infos(folder):
    """The lstat of every file below a folder."""
    for path, _, files in os.walk(folder):
        for name in files:
            try:
                yield os.lstat(os.path.join(path, name))
            except OSError:
                continue


def kept_blobs(root):
    """(path, size, modified) of every blob."""
    top = os.path.join(root, "blobs", "sha256")
    found = []
    for path in glob.glob(os.path.join(glob.escape(top), "[0-9a-f][0-9a-f]", "*")):
        folder, name = os.path.split(path)
        if not blobs.SHA.match(name) or os.path.islink(folder) or os.path.islink(top):
            continue
        try:
            info = os.lstat(path)
        except OSError:
            continue
        found.append((path, info.st_size, info.st_mtime))
    return found
