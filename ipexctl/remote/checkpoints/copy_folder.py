"""The copies of checkpoints that a host holds: RUN/copies/HOST.

HOST/blobs          files by content, and parts: lists of files, by content as well
HOST/published      a JSON file for each complete checkpoint, its manifest, written last
HOST/pending.json   what was found and is not published

A manifest is written once every part is on the disk of its writer and of the writer's partner.
"""

import contextlib
import hashlib
import json
import os
import time

from ipexctl.common.checkpoint_reports import Manifest
from ipexctl.common.files import hash_of, sync_folder, write_atomic
from ipexctl.common.run_orders import StartOrder
from ipexctl.common.sizes import format_bytes
from ipexctl.common.strict_json import read_strict_json
from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blob_download, blobs
from ipexctl.remote.checkpoints import checkpoint_files, checkpoint_rules
from ipexctl.remote.failure import Failure

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterable
    from typing import Any

    from ipexctl.remote.blobs.blobs import FileId
    from ipexctl.remote.checkpoints.checkpoint_files import FileInfo, Files
    from ipexctl.remote.main import Emitter

    Row = list[Any]  # path, sha256, size, and more in messages
    Part = dict[str, Any]  # name, files: its Rows

ASIDE = ".ipexctl-aside"  # below the folder of the ranks


def aside_folder(order: StartOrder) -> str:
    """Return where what is newer than the checkpoint of an attempt is moved when it begins."""
    return os.path.join(order.cwd, ASIDE, order.run_id)


class Changed(Exception):
    """The script wrote to a file while it was copied."""


class CopyFolder:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.top = os.path.join(folder, "blobs", "sha256")

    def make(self) -> None:
        parent, name = os.path.split(self.folder)
        root_folder.make_subfolder(os.path.dirname(parent), os.path.basename(parent), name)
        for names in (("blobs", "sha256"), ("blobs", "parts"), ("published",)):
            root_folder.make_subfolder(self.folder, *names)

    # -- parts --

    def has(self, sha: str, size: int) -> bool:
        return blobs.has_blob(self.folder, sha, size)

    def path(self, sha: str) -> str:
        return blobs.path_of(self.folder, sha)

    def part(self, sha: str) -> "Part | None":
        """Return a part's {name, files: [[path below the folder of the ranks, sha256, size], ...]};
        None if absent."""
        try:
            with open(self.path(sha), "rb") as file:
                text = file.read()
        except OSError:
            return None
        if hashlib.sha256(text).hexdigest() != sha:
            return None
        part = read_strict_json(text)
        rows = [[place_below(part["name"], row[0])] + row[1:] for row in part["files"]]
        return dict(part, files=rows)

    def has_part(self, sha: str) -> bool:
        """Return whether the part and all of its files are here."""
        part = self.part(sha)
        return part is not None and all(self.has(file, size) for _, file, size in part["files"])

    def keep(self, top: str, files: "Files") -> str:
        """Copy these files of a checkpoint, {path below `top`: (size, mtime, inode)}; return the
        part's sha256. Raise Changed, Failure."""
        paths = {below: os.path.join(top, below) for below in sorted(files)}
        infos = [os.lstat(path) for path in paths.values()]
        self.need_room(sum(info.st_size for info in infos if not self.find_copied_hash(info)))
        rows = [[key, self.copy(path, files[key]), files[key][0]] for key, path in paths.items()]
        return self.add_part({"name": ".", "files": rows})

    def copy(self, path: str, expected: "FileInfo") -> str:
        info = os.lstat(path)
        if (info.st_size, info.st_mtime_ns, info.st_ino) != expected:
            raise Changed
        return self.find_copied_hash(info) or self.take(path, blobs.stamp_of(info))

    def find_copied_hash(self, info: "os.stat_result") -> str:
        """Return the sha256 of a file that has not changed since it was copied, else ""."""
        sha = blobs.hashes.get(blobs.stamp_of(info), "")
        return sha if sha and self.has(sha, info.st_size) else ""

    def take(self, path: str, stamp: "FileId") -> str:
        """Copy a file into the blobs; return its sha256. Raise Changed if it changes meanwhile."""
        part = blobs.new_part(os.path.join(self.folder, "blobs", "parts"), "0" * 16)
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                digest = hash_of(file, lambda piece: blobs.write_all(part.file.write, piece))
                if blobs.stamp_of(os.fstat(file.fileno())) != stamp:
                    raise Changed
            sha = digest.hexdigest()
            blobs.store_part(self.folder, part, sha)
        finally:
            blobs.try_unlink(part.path)  # unless it has its final name by now
            part.close()
        blobs.hashes[stamp] = sha
        return sha

    def add_part(self, document: "Part") -> str:
        """Write a part. When this returns, it is on the disk with all of its files."""
        text = json.dumps(document, sort_keys=True).encode("ascii")
        sha = hashlib.sha256(text).hexdigest()
        root_folder.make_subfolder(self.top, sha[:2])
        write_atomic(self.path(sha), text, mode=None, sync=True)
        self.sync_files(document["files"])
        return sha

    def fetch(self, sha: str, size: int, keys: "dict[str, str]", url: str) -> None:
        """Copy a part and its files from another host; `size` is that of its list of files."""
        fetch_blob(self.folder, sha, size, keys, url)
        part = self.part(sha)
        assert part is not None  # it was verified
        missing = {file: n for _, file, n in part["files"] if not self.has(file, n)}
        self.need_room(sum(missing.values()))
        for file in sorted(missing):
            fetch_blob(self.folder, file, missing[file], keys, url)
        self.sync_files(part["files"])

    def sync_files(self, rows: "list[Row]") -> None:
        for folder in {os.path.dirname(self.path(file)) for _, file, _ in rows}:
            sync_folder(folder)
        sync_folder(self.top)

    def need_room(self, size: int) -> None:
        disk = os.statvfs(self.folder)
        free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        if size and not checkpoint_rules.has_room(free, total, size):
            left = format_bytes(checkpoint_rules.must_stay_free(total))
            why = "less than %s of the disk would stay free in %s" % (left, self.folder)
            raise Failure("no room for a copy of %s" % format_bytes(size), why, slug="no-space")

    # -- complete checkpoints --

    def manifest_path(self, number: int) -> str:
        return os.path.join(self.folder, "published", "%06d.json" % number)

    def publish(self, manifest: Manifest) -> None:
        document = dict(manifest.document(), time=time.time() - manifest.age)
        text = json.dumps(document, sort_keys=True).encode("ascii")
        write_atomic(self.manifest_path(manifest.number), text, mode=None, sync=True)

    def read_manifests(self) -> "dict[int, Manifest]":
        """Return {number: Manifest}."""
        manifests, now = {}, time.time()
        for name in sorted(os.listdir(os.path.join(self.folder, "published"))):
            if name.endswith(".json"):
                document = checkpoint_files.read_json(os.path.join(self.folder, "published", name))
                age = max(0.0, now - document["time"])
                manifests[document["number"]] = Manifest.read(dict(document, age=age))
        return manifests

    def remove_unneeded(self, pending: "Iterable[str]") -> None:
        """Remove what neither a complete checkpoint that stays nor a part of `pending` needs."""
        manifests = self.read_manifests()
        kept_numbers = checkpoint_rules.choose_kept(manifests)
        needed = set(pending)
        for number, manifest in manifests.items():
            if number in kept_numbers:
                needed.update(part.sha for part in manifest.parts.values())
            else:
                blobs.try_unlink(self.manifest_path(number))
        parts = [part for part in map(self.part, sorted(needed)) if part]
        needed.update(sha for part in parts for _, sha, _ in part["files"])
        for folder, _, names in os.walk(os.path.join(self.folder, "blobs")):
            for name in names:
                if name.partition(".")[0] not in needed:
                    blobs.try_unlink(os.path.join(folder, name))


def place_below(name: str, path: str) -> str:
    """Return where a file of a part belongs, below the folder of the ranks."""
    return os.path.normpath(os.path.join(name, path))


class FilesBySha:
    """The files in these folders by content, as blob_server.py looks them up."""

    def __init__(self, copy_folders: "list[CopyFolder]") -> None:
        self.copy_folders = copy_folders

    def get(self, sha: str) -> "str | None":
        paths = [folder.path(sha) for folder in self.copy_folders] if blobs.SHA.match(sha) else []
        return next(filter(os.path.isfile, paths), None)


def fetch_blob(
    root: str, sha: str, size: int, keys: "dict[str, str]", url: str, call: "Emitter | None" = None
) -> None:
    """Fetch a file into ROOT/blobs if it is absent, and verify its hash. `call` gets events."""
    root_folder.make_subfolder(root, "blobs", "parts")
    with contextlib.closing(
        blob_download.BlobDownload(call or Silent(), root, keys, url)
    ) as download:
        download.fetch(sha[:16], sha, size)


class Silent:
    def emit(self, event: "dict[str, Any]", body: bytes = b"") -> None:
        """Drop the event."""
