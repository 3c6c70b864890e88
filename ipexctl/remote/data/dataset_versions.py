"""Manage the versions of a dataset on this host: which are complete or in use; remove others."""

import fcntl
import hashlib
import os
import re
import shutil
import stat
import time

from ipexctl.common.files import read_json, replace_link
from ipexctl.common.folder_answers import DatasetRow
from ipexctl.common.locks import try_lock
from ipexctl.common.tolerant_reads import info_of, link_of, names_in
from ipexctl.remote import disk_use, root_folder
from ipexctl.remote.blobs import blobs
from ipexctl.remote.failure import Failure
from ipexctl.remote.project import synced_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
ROOM = re.compile(r"\.?[0-9a-f]{16}\Z")


def dataset_folder(root: str, name: str, make: bool = True) -> str:
    return (
        root_folder.make_subfolder(root, "data", name) if make else os.path.join(root, "data", name)
    )


def dataset_names(root: str) -> "list[str]":
    top = os.path.join(root, "data")
    return sorted(n for n in names_in(top) if NAME.match(n) and os.path.isdir(os.path.join(top, n)))


def version_folders(top: str) -> "list[str]":
    """Return the folders of versions: complete, unfinished, or left by an interrupted removal."""
    return [n for n in names_in(top) if ROOM.match(n) and os.path.isdir(os.path.join(top, n))]


def complete_versions(top: str) -> "list[str]":
    """Return the versions that are complete."""
    versions = [n for n in version_folders(top) if not n.startswith(".")]
    return [n for n in versions if os.path.exists(os.path.join(top, n, "tree"))]


def current_version(top: str) -> str:
    version = link_of(os.path.join(top, "current"))
    return version if version in complete_versions(top) else ""


def set_current(top: str, version: str) -> None:
    if current_version(top) == version:
        return
    replace_link(top, "current", version)


def read_tree(top: str, version: str) -> "dict[str, Any]":
    tree = read_json(os.path.join(top, version, "tree"))
    return tree or {"folders": [], "files": [], "links": []}


# --- is it as it was pushed? ---------------------------------------------------------------------


def is_intact(top: str, version: str) -> bool:
    """Decide whether this is the current version, with unchanged dates, sizes and modes."""
    if current_version(top) != version:
        return False
    tree = read_tree(top, version)
    files = os.fsencode(os.path.join(top, version, "files"))
    if len(find_unchanged_files(files, tree)) < len(tree["files"]):
        return False
    linked = all(
        is_link(synced_folders.checked_path_below(files, name), target)
        for name, target in tree["links"]
    )
    return linked and all(
        os.path.isdir(synced_folders.checked_path_below(files, name)) for name in tree["folders"]
    )


def find_unchanged_files(files: bytes, tree: "dict[str, Any]") -> "set[int]":
    """Return the indices of files whose size, date and mode are as they were left."""
    indices = set()
    for i, stamp in enumerate(tree.get("stamps", [])):
        name, _, size, _ = tree["files"][i]
        info = info_of(synced_folders.checked_path_below(files, name))
        if info is None or not stat.S_ISREG(info.st_mode):
            continue
        if info.st_size == size and stamp_of(info) == stamp:
            indices.add(i)
    return indices


def stamp_of(info: "os.stat_result") -> "list[int]":
    return [info.st_mtime_ns, stat.S_IMODE(info.st_mode)]


def is_link(path: bytes, target: str) -> bool:
    return link_of(path) == synced_folders.encode_path(target)


# --- what is reported ----------------------------------------------------------------------------


def dataset_row(top: str) -> DatasetRow:
    """Return what `data ls` shows of a dataset: its current version and other folders."""
    version = current_version(top)
    complete = complete_versions(top)
    if version:
        row = version_row(top, version)
    else:
        row = DatasetRow(os.path.basename(top), "", *disk_usage(top), path=top, hub="", source="")
    old = len(complete) - bool(version)
    unfinished = len(version_folders(top)) - len(complete)
    return row.replace(old=old, parts=unfinished)


def version_row(top: str, version: str) -> DatasetRow:
    path = os.path.join(top, version)
    tree = read_tree(top, version)
    files = tree["files"]
    return DatasetRow(
        name=os.path.basename(top),
        version=version,
        files=len(files),
        bytes=sum(size for _, _, size, _ in files),
        path=os.path.join(path, "files"),
        hub=hf_home_of(path),
        source=tree.get("source") or "",
    )


def hf_home_of(path: str) -> str:
    """Return the value for HF_HOME; "" if this is not a cache of the Hugging Face Hub."""
    if os.path.islink(os.path.join(path, "hub")):
        return path
    marked = os.path.exists(os.path.join(path, "is-home"))
    return os.path.join(path, "files") if marked else ""


def disk_usage(top: str) -> "tuple[int, int]":
    """Return (files, bytes) on the disk; a file with several links counts once."""
    folders = (os.path.join(top, room, "files") for room in version_folders(top))
    infos = (info for folder in folders for info in disk_use.file_infos(folder))
    sizes = {(i.st_dev, i.st_ino): i.st_size for i in infos if stat.S_ISREG(i.st_mode)}
    return len(sizes), sum(sizes.values())


# --- in use, or removed --------------------------------------------------------------------------


def lock_current(top: str) -> "tuple[str, int | None]":
    """Return (the version that runs get, the lock that keeps it here); ("", None) without one."""
    for _ in range(100):
        version = current_version(top)
        if not version:
            break
        lock = lock_folder(top, version, fcntl.LOCK_SH)
        if lock is not None:
            if version in complete_versions(top):
                return version, lock
            os.close(lock)
        time.sleep(0.1)  # it is being removed, or another process checks whether it could be
    return "", None


def retire_all(top: str) -> "list[str]":
    """Unmark all versions. If some are in use, change nothing and return their folders."""
    locks = {room: lock_folder(top, room, fcntl.LOCK_EX) for room in version_folders(top)}
    busy = [room for room, lock in locks.items() if lock is None]
    try:
        if not busy:
            blobs.try_unlink(os.path.join(top, "current"))
            for room in locks:
                blobs.try_unlink(os.path.join(top, room, "tree"))
    finally:  # close them before the removal: NFS keeps open files, and so their folder
        for lock in locks.values():
            if lock is not None:
                os.close(lock)
    return busy


def remove_others(top: str, keep: str) -> None:
    """Remove all versions but one, and leftovers of interrupted pushes, unless they are in use."""
    for room in version_folders(top):
        lock = lock_folder(top, room, fcntl.LOCK_EX) if room != keep else None
        if lock is not None:
            blobs.try_unlink(os.path.join(top, room, "tree"))
            os.close(lock)
            if room.startswith("."):  # its builder may just have resumed it
                shutil.rmtree(os.path.join(top, room), ignore_errors=True)
            else:
                remove_folder(os.path.join(top, room))


def remove_folder(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        raise Failure(
            "%s could not be removed completely" % path,
            "",
            "see what is left in it",
            slug="dataset-not-removed",
        )


def lock_folder(top: str, room: str, kind: int) -> "int | None":
    """Return the lock of a version's folder; None if another process holds it or it is gone."""
    try:
        fd = os.open(os.path.join(top, room, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except FileNotFoundError:
        return None
    if try_lock(fd, kind):
        return fd
    os.close(fd)
    return None


# --- several caches of the Hugging Face Hub as one -----------------------------------------------


def join_hf_homes(root: str, homes: "list[str]") -> str:
    """Return an HF_HOME, ROOT/data/.hubs/KEY, with links to all repositories of these caches, each
    from the first cache that has it. A run has one HF_HOME; KEY stands for the versions."""
    key = hashlib.sha256("\0".join(homes).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    remove_broken_hf_homes(root)
    home = root_folder.make_subfolder(root, "data", ".hubs", key)
    hf_cache = root_folder.make_subfolder(home, "hub")
    for hf_home in homes:
        for name in os.listdir(os.path.join(hf_home, "hub")):
            try:
                os.symlink(os.path.join(hf_home, "hub", name), os.path.join(hf_cache, name))
            except FileExistsError:
                pass
            except OSError as e:
                raise root_folder.write_failure(e, root, 0) from None
    return home


def remove_broken_hf_homes(root: str) -> None:
    """Remove joined caches that lack a dataset by now: no run can use them."""
    top = os.path.join(root, "data", ".hubs")
    for key in names_in(top):
        hf_cache = os.path.join(top, key, "hub")
        if not all(os.path.exists(os.path.join(hf_cache, name)) for name in names_in(hf_cache)):
            shutil.rmtree(os.path.join(top, key), ignore_errors=True)
