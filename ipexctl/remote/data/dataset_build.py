"""Build a version of a dataset, or repair one whose files were changed or removed on the host.

Content that the host has is not sent again, but this agent hashes every file before using it as a
source: a damaged dataset does not damage others.
"""

import fcntl
import json
import os
import shutil
import stat
import time

from ipexctl.common.files import remove_path, rename_synced, sync_disk, write_atomic
from ipexctl.common.folder_answers import DatasetMade
from ipexctl.common.locks import is_named, try_lock
from ipexctl.common.tolerant_reads import info_of
from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blobs, packs
from ipexctl.remote.data import dataset_versions
from ipexctl.remote.project import synced_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Container
    from typing import Any

    from ipexctl.remote.main import Call

SHORT = 16
BUSY = "busy"
SOURCES = 4  # places of one content that are tried
parts = {}  # type: dict[tuple[str, str], DatasetPart]  # what this agent makes, by folder and key


def unchanged(top: str, version: str) -> DatasetMade:
    return DatasetMade(dataset_versions.version_row(top, version), same=True)


def claim_part(
    call: "Call", root: str, top: str, key: str, tree: "dict[str, Any]", waits: bool = True
) -> "DatasetPart | str | None":
    """Return the locked Part of the version to build or repair; None if the version is intact; BUSY
    if another process builds it and `waits` is false."""
    if (top, key) in parts:
        return parts[top, key]
    while not dataset_versions.is_intact(top, key[:SHORT]):
        try:
            part = DatasetPart(root, top, key, tree)
        except FileNotFoundError:
            continue  # its builder has just given it the final name
        if waits:
            blobs.wait_for_lock(call, part.lock)
        elif not try_lock(part.lock):
            part.close()
            return BUSY
        if is_named(part.lock, os.path.join(part.path, "lock")) and part.begin():
            parts[top, key] = part
            return part
        part.close()
    return None


class DatasetPart:
    """ROOT/data/NAME/.KEY, where a version is built. Only the process that holds its lock writes to
    it, or to the version that is repaired."""

    def __init__(self, root: str, top: str, key: str, tree: "dict[str, Any]") -> None:
        self.root, self.top, self.key, self.tree = root, top, key, tree
        self.version = key[:SHORT]
        self.path = root_folder.make_subfolder(top, "." + self.version)
        self.lock = os.open(os.path.join(self.path, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        self.use = None  # type: int | None  # the lock of the version that is repaired
        self.unchanged = set()  # type: set[int]  # files of that version that need no check
        self.bad = None  # type: int | None  # how many files were wrong

    def begin(self) -> bool:
        """Return False if the version that is to be repaired is being removed."""
        folder = self.path
        if self.use is None and self.version in dataset_versions.complete_versions(self.top):
            self.use = dataset_versions.lock_folder(self.top, self.version, fcntl.LOCK_SH)
            if self.use is None:
                time.sleep(0.1)
                return False
        if self.use is not None:
            folder = os.path.join(self.top, self.version)
        self.files = os.fsencode(root_folder.make_subfolder(folder, "files"))
        if self.use is not None:
            tree = dataset_versions.read_tree(self.top, self.version)
            self.unchanged = dataset_versions.find_unchanged_files(self.files, tree)
        return True

    def close(self) -> None:
        """Release the locks; after a repair, remove the folder that is no longer needed."""
        parts.pop((self.top, self.key), None)
        if self.use is not None:  # all of it is in the version
            blobs.try_unlink(os.path.join(self.path, "lock"))
            os.close(self.use)
        os.close(self.lock)
        if self.use is not None:
            shutil.rmtree(os.path.join(self.path, "files"), ignore_errors=True)
            try:
                os.rmdir(self.path)
            except OSError:
                pass  # a later version has come

    # --- what is here ---

    def place_present_files(self) -> "list[int]":
        """Return the indices of files that have to be sent; files the host has are put in place."""
        try:
            for name in self.tree["folders"]:
                os.makedirs(
                    synced_folders.checked_path_below(self.files, name), 0o700, exist_ok=True
                )
            wrong = [i for i in range(len(self.tree["files"])) if not self.is_right(i)]
            absent = [i for i in wrong if not self.place_file(i)]
        except OSError as e:
            raise root_folder.write_failure(e, self.root, 0) from None
        if self.bad is None:
            self.bad = len(wrong)
        sizes = {self.tree["files"][i][1]: self.tree["files"][i][2] for i in absent}
        root_folder.need_space(self.root, sum(sizes.values()), len(absent))
        return absent

    def is_right(self, index: int) -> bool:
        """Decide whether the file is in its place. A file with another content is removed."""
        name, sha, size, executable = self.tree["files"][index]
        path = synced_folders.checked_path_below(self.files, name)
        if index not in self.unchanged and not has_content(path, sha, size):
            remove_path(path)
            return False
        self.learn(sha, executable, path)
        return True

    def place_file(self, index: int) -> bool:
        """Put the file in its place from another file or a blob of this host, if there is one."""
        name, sha, size, executable = self.tree["files"][index]
        path = synced_folders.checked_path_below(self.files, name)
        same_mode, other_mode = ((sha, bool(executable)), (sha, not executable))
        paths = self.sources.get(same_mode, []) + self.sources.get(other_mode, [])
        blob = os.fsencode(blobs.path_of(self.root, sha))
        source = next((place for place in paths + [blob] if has_content(place, sha, size)), None)
        if source is None:
            blobs.try_unlink(blob)  # if it exists it is damaged, and would not be sent
            return False
        link_or_copy(source, path, sha, executable)
        self.learn(sha, executable, path)
        return True

    @property
    def sources(self) -> "dict[tuple[str, bool], list[bytes]]":
        """Return {(sha256, executable): paths} of the files in all datasets of this host."""
        if not hasattr(self, "_sources"):
            self._sources = {}  # type: dict[tuple[str, bool], list[bytes]]
            for name in dataset_versions.dataset_names(self.root):
                top = os.path.join(self.root, "data", name)
                for version in dataset_versions.complete_versions(top):
                    files = os.fsencode(os.path.join(top, version, "files"))
                    tree = dataset_versions.read_tree(top, version)
                    for path, sha, _, executable in tree["files"]:
                        self.learn(sha, executable, synced_folders.checked_path_below(files, path))
        return self._sources

    def learn(self, sha: str, executable: bool, path: bytes) -> None:
        """Note a place of a content; the latest one is tried first."""
        paths = self.sources.setdefault((sha, bool(executable)), [])
        paths.insert(0, path)
        del paths[SOURCES:]

    # --- what comes ---

    def find_first_places(self, shas: "Container[str]") -> "dict[str, tuple[bytes, bool]]":
        """Return {sha256: (the first free place of this content, whether it is executable)}."""
        places = {}  # type: dict[str, tuple[bytes, bool]]
        for name, sha, _, executable in self.tree["files"]:
            path = synced_folders.checked_path_below(self.files, name)
            if sha in shas and not (sha in places or os.path.lexists(path)):
                places[sha] = (path, bool(executable))
        return places

    def unpack_pack(self, pack: "packs.Pack") -> None:
        """Put the files of a pack in their first places; place_present_files() links the others."""
        sha, _, packed, expected = pack
        places = self.find_first_places({content for content, _ in expected})
        try:
            contents = packs.read_pack_contents(self.root, sha, packed, expected)
            for content, _ in expected:
                data = next(contents)
                path, executable = places[content]
                with open(path, "wb") as file:
                    file.write(data)
                set_mode(path, executable)
                blobs.remember_hash(path, content)
                self.learn(content, executable, path)
        except OSError as e:
            size = sum(size for _, size in expected)
            raise root_folder.write_failure(e, self.root, size) from None

    def complete_version(self, hub: "str | bool", source: "str | None") -> DatasetMade:
        """Make this version the current one, and remove others."""
        is_repair = self.use is not None
        before = dataset_versions.current_version(self.top)
        is_other = before not in ("", self.version)
        replaced = dataset_versions.version_row(self.top, before) if is_other else None
        try:
            self.bad = (self.bad or 0) + self.make_links(hub)
            self.write_file_list(source)
            if not is_repair:
                folder = os.path.join(self.top, self.version)
                dataset_versions.remove_folder(folder)  # of an interrupted removal
                rename_synced(self.path, folder)
            dataset_versions.set_current(self.top, self.version)
        except OSError as e:
            raise root_folder.write_failure(e, self.root, 0) from None
        blobs.remove_blobs(self.root, {sha for _, sha, _, _ in self.tree["files"]})
        self.close()
        dataset_versions.remove_others(self.top, self.version)
        row = dataset_versions.version_row(self.top, self.version)
        same = is_repair and not self.bad
        return DatasetMade(row, same, self.bad if is_repair else 0, replaced)

    def make_links(self, hub: "str | bool") -> int:
        """Make the links; return how many were missing or wrong."""
        wrong = 0
        for name, target in self.tree["links"]:
            path = synced_folders.checked_path_below(self.files, name)
            if not dataset_versions.is_link(path, target):
                remove_path(path)
                synced_folders.make_link(self.files, name, target)
                wrong += 1
        top = os.path.dirname(self.files)
        if hub == "cache" and not os.path.lexists(os.path.join(top, b"hub")):
            os.symlink(b"files", os.path.join(top, b"hub"))
        elif hub == "home":
            open(os.path.join(top, b"is-home"), "w").close()
        return wrong

    def write_file_list(self, source: "str | None") -> None:
        """Write the list of the complete version, with the dates and modes of its files."""
        paths = [
            synced_folders.checked_path_below(self.files, name)
            for name, _, _, _ in self.tree["files"]
        ]
        for i, path in enumerate(paths):
            set_mode(path, self.tree["files"][i][3])
        sync_disk(self.files)
        stamps = [dataset_versions.stamp_of(os.lstat(path)) for path in paths]
        tree = dict(self.tree, stamps=stamps, source=source)
        data = json.dumps(tree, separators=(",", ":")).encode("ascii")
        path = os.path.join(os.path.dirname(self.files), b"tree")
        write_atomic(os.fsdecode(path), data, mode=None, sync=True)


# --- files ---------------------------------------------------------------------------------------


def has_content(path: bytes, sha: str, size: int) -> bool:
    info = info_of(path)
    return info is not None and info.st_size == size and blobs.has_content(path, sha)


def link_or_copy(source: bytes, path: bytes, sha: str, executable: bool) -> None:
    """Link the file if both places need the same mode, else copy it."""
    if bool(os.lstat(source).st_mode & 0o100) == bool(executable):
        try:
            os.link(source, path)
            os.chmod(path, mode_of(executable))
            return
        except OSError:  # a file system without hard links, or too many links to this file
            pass
    shutil.copyfile(source, path)
    set_mode(path, executable)
    blobs.remember_hash(path, sha)


def mode_of(executable: bool) -> int:
    return 0o555 if executable else 0o444


def set_mode(path: bytes, executable: bool) -> None:
    """Set the mode. A file that is also linked elsewhere with another mode is copied first."""
    info = os.lstat(path)
    if stat.S_IMODE(info.st_mode) == mode_of(executable):
        return
    if info.st_nlink > 1 and bool(info.st_mode & 0o100) != bool(executable):
        copy = path + b"." + os.urandom(8).hex().encode()
        shutil.copyfile(path, copy)
        os.rename(copy, path)
    os.chmod(path, mode_of(executable))
