"""Packs: many small contents in one file. They travel as blobs, and are kept in ROOT/blobs/packs.

Small files are not blobs of their own: thousands of them would cost thousands of files more. What
is read from a pack is hashed again, so a pack need not be on the disk before it is used.
"""

import hashlib
import json
import os
import struct
import zlib

from ipexctl.common.files import open_atomic
from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blobs

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterable, Iterator
    from typing import Any

    Contents = list[tuple[str, int]]  # sha256, size
    Pack = tuple[str, int, bool, Contents]  # sha256, size, whether it is compressed, what it holds

HEAD = struct.Struct(">4sI")
MAGIC = b"ipx1"


def read_pack_contents(
    root: str, sha: str, packed: bool, expected: "Contents"
) -> "Iterator[bytes]":
    """Yield the contents in a pack that came as a blob; `expected`: [(sha256, size), ...]."""
    path = blobs.path_of(root, sha)
    with open(path, "rb") as file:
        data = file.read()
    try:
        data = zlib.decompress(data) if packed else data
    except zlib.error:
        data = b""
    offset = 0
    for content, size in expected:
        piece = data[offset : offset + size]
        if hashlib.sha256(piece).hexdigest() != content:
            blobs.try_unlink(path)
            raise blobs.damage_failure(path)
        yield piece
        offset += size


def write_pack(root: str, expected: "Contents", datas: "Iterable[bytes]") -> None:
    """Keep these contents as another pack."""
    folder = root_folder.make_subfolder(root, "blobs", "packs")
    index = json.dumps(expected, separators=(",", ":")).encode("ascii")
    path = os.path.join(folder, "%s.pack" % os.urandom(8).hex())
    with open_atomic(path, mode=None) as file:
        file.write(HEAD.pack(MAGIC, len(index)) + index)
        for data in datas:
            file.write(data)


def store_packs(root: str, rows: "Iterable[Pack]") -> None:
    """Keep packs that came as blobs: [[sha256, size, packed, [[sha256, size], ...]], ...]."""
    for sha, _, packed, expected in rows:
        try:
            write_pack(root, expected, read_pack_contents(root, sha, packed, expected))
        except FileNotFoundError:
            continue  # another sync of the same files has kept it
        blobs.try_unlink(blobs.path_of(root, sha))


class Packs:
    """The small contents that are on this host, in ROOT/blobs/packs."""

    def __init__(self, root: str) -> None:
        self.folder = root_folder.make_subfolder(root, "blobs", "packs")
        # sha256 -> (path, offset, size)
        self._where = {}  # type: dict[str, tuple[str, int, int]]
        self._sizes = {}  # type: dict[str, int]  # path -> bytes, of all packs
        self.is_read = False  # a project of which nothing has changed needs none
        self.files = {}  # type: dict[str, memoryview]  # by path

    @property
    def where(self) -> "dict[str, tuple[str, int, int]]":
        self.read()
        return self._where

    @property
    def sizes(self) -> "dict[str, int]":
        self.read()
        return self._sizes

    def read(self) -> None:
        """Read the indexes of all packs, once."""
        if self.is_read:
            return
        self.is_read = True
        for name in os.listdir(self.folder):
            if name.endswith(".pack"):
                self.learn(os.path.join(self.folder, name))

    def learn(self, path: str) -> None:
        """Read the index of a pack; remove the pack if it is damaged."""
        try:
            with open(path, "rb") as file:
                magic, size = HEAD.unpack(file.read(HEAD.size))
                rows = json.loads(file.read(size).decode("ascii")) if magic == MAGIC else []
                length = os.fstat(file.fileno()).st_size
        except (OSError, ValueError, struct.error):
            rows = []
        offset = HEAD.size + size if rows else 0
        for sha, count in rows:
            if offset + count <= length:
                self._where[sha] = (path, offset, count)
            offset += count
        if rows:
            self._sizes[path] = length
        else:
            blobs.try_unlink(path)

    def has(self, sha: str, size: int) -> bool:
        place = self.where.get(sha)
        return place is not None and place[2] == size

    def touch(self, tree: "dict[str, Any]") -> None:
        """Mark the packs of these files as used: the least recently used are removed first."""
        for path in {self.where[sha][0] for _, sha, _, _ in tree["files"] if sha in self.where}:
            os.utime(path, None)

    def read_content(self, sha: str) -> memoryview:
        """Return the bytes with this sha256. Remove the pack and raise Failure if damaged."""
        path, offset, size = self.where.get(sha, (os.path.join(self.folder, sha), 0, 0))
        if path not in self.files:
            with blobs.open_stored(path) as file:
                self.files[path] = memoryview(file.read())
        data = self.files[path][offset : offset + size]
        if hashlib.sha256(data).hexdigest() != sha:
            blobs.try_unlink(path)
            raise blobs.damage_failure(path)
        return data
