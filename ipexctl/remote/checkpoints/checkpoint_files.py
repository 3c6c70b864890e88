"""Checkpoints in the folder of the ranks: which there are, and whether a file of one is finished.

Links are not followed: what is reached through one is not a checkpoint of this run.
"""

import glob
import hashlib
import json
import os
import re
import stat
import zipfile

from ipexctl.common import checkpoint_names

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterable
    from typing import Any

    FileInfo = tuple[int, int, int]  # size, mtime in ns, inode
    Files = dict[str, FileInfo]
    Members = dict[str, Files | None]  # None: it contains something else

ZIPPED = (".pt", ".pth", ".bin", ".ckpt", ".pkl")  # what torch.save writes, under its usual names
TENSORS = ".safetensors"
LONGEST_HEADER = 100 << 20  # the limit of the safetensors library
DONE = ".done"
SHARDS = re.compile(rb"__[0-9]+_[0-9]+\.distcp")


def found_in(folder: str, patterns: "list[str]") -> "Members":
    """Return {name: {path below it, "" for a file: (size, mtime, inode)}} of each match, None as
    the value if a match contains something else. A match inside another one is a part of it."""
    top = os.path.realpath(folder)
    names = set()  # type: set[str]
    for pattern in patterns:
        for path in glob.iglob(os.path.join(glob.escape(top), pattern), recursive=True):
            path = os.path.normpath(path)
            if path.startswith(top + os.sep) and os.path.realpath(path) == path:
                names.add(os.path.relpath(path, top))
    outer = (n for n in names if not any(n.startswith(other + "/") for other in names))
    return {name: list_checkpoint_files(os.path.join(top, name)) for name in outer}


def group_by_checkpoint(matches: "Members") -> "dict[str, Members]":
    """Return {key: {name: its files}} of what `found_in` returned."""
    units = {}  # type: dict[str, Members]
    for name, files in matches.items():
        if name.endswith(DONE):  # it says of another one that it is complete
            continue
        key = checkpoint_names.checkpoint_key(name, is_folder="" not in (files or ()))
        units.setdefault(key, {})[name] = files
    return units


def is_marked_done(top: str, members: "Members", files: "Files") -> bool:
    """Return whether a .done file in a checkpoint or beside it was written after its files."""
    marks = [name + DONE for name in members]
    marks += [os.path.join(name, DONE) for name in members if "" not in (members[name] or ())]
    marks += [os.path.join(os.path.dirname(name), DONE) for name in members]
    times = [mtime for path, (_, mtime, _) in files.items() if path not in marks]
    for mark in marks:
        try:
            if os.lstat(os.path.join(top, mark)).st_mtime_ns >= max(times, default=0):
                return True
        except OSError:
            continue
    return False


def files_of_checkpoint(members: "Members") -> "Files | None":
    """Return {path: (size, mtime, inode)} of the names of a checkpoint; None as `found_in`."""
    files = {}  # type: Files
    for name, found in members.items():
        if found is None:
            return None
        files.update((checkpoint_file_path(name, below), info) for below, info in found.items())
    return files


def checkpoint_file_path(top: str, below: str) -> str:
    """Return the place of a file of a checkpoint; "" is a checkpoint that is a file itself."""
    return os.path.join(top, below) if below else top


def list_checkpoint_files(path: str) -> "Files | None":
    files, todo = {}, [""]  # type: Files, list[str]
    while todo:
        below = todo.pop()
        try:
            info = os.lstat(checkpoint_file_path(path, below))
            if stat.S_ISDIR(info.st_mode):
                names = os.listdir(checkpoint_file_path(path, below))
                todo += [os.path.join(below, name) for name in names]
            elif stat.S_ISREG(info.st_mode):
                files[below] = info.st_size, info.st_mtime_ns, info.st_ino
            else:
                return None
        except OSError:  # it is being removed, or changed
            return {}
    return files


def last_change(files: "Files | None") -> int:
    """Return when the last of the files was written, in ns."""
    return max([mtime for _, mtime, _ in (files or {}).values()] or [0])


def stamp_of_files(files: "Files") -> str:
    """Return a text that changes as soon as anything is written to the files."""
    return hashlib.sha256(repr(sorted(files.items())).encode("utf-8")).hexdigest()[:16]


def why_checkpoint_unfinished(top: str, files: "Files | None") -> str:
    """Return why these files are not a finished checkpoint, as far as is known; "" if they are."""
    if files is None:
        return "something in it is not a file"
    if not any(size for size, _, _ in files.values()):
        return "it is empty"
    for below in sorted(files):
        path = checkpoint_file_path(top, below)
        try:
            why = why_unfinished(path, files[below][0])
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as e:
            why = "cannot be read (%s)" % (e,)
        if why:
            return "%s: %s" % (below or os.path.basename(top), why)
    return ""


def why_unfinished(path: str, size: int) -> str:
    if os.path.basename(path) == "trainer_state.json":
        read_json(path)
    elif path.endswith(TENSORS):
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length <= min(LONGEST_HEADER, size - 8):
                return "its header is not complete"
            header = json.loads(file.read(length).decode("utf-8"))
        ends = [row["data_offsets"][1] for key, row in header.items() if key != "__metadata__"]
        if size != 8 + length + max(ends or [0]):
            return "its tensors are not complete"
    elif path.endswith(ZIPPED):
        with open(path, "rb") as file:
            if file.read(4) == b"PK\3\4":
                zipfile.ZipFile(file).close()
            elif not size:
                return "it is empty"
    return ""


def list_indexed_files(top: str, files: "Iterable[str]") -> "list[str]":
    """Return the files that index files among these name, also on other hosts."""
    paths = set()  # type: set[str]
    for below in files:
        folder, base = os.path.split(below)
        names = []  # type: list[str]
        if base == ".metadata":
            with open(os.path.join(top, below), "rb") as file:
                names = [name.decode("ascii") for name in SHARDS.findall(file.read())]
        elif base.endswith(".index.json"):
            weight_map = read_json(os.path.join(top, below)).get("weight_map")
            names = list(map(str, weight_map.values())) if isinstance(weight_map, dict) else []
        paths.update(os.path.join(folder, name) for name in names)
    return sorted(paths)


def read_json(path: str) -> "Any":
    with open(path, "rb") as file:
        return json.loads(file.read().decode("utf-8"))
