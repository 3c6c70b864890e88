"""Find the files that ranks left in the run's folder, and send them."""

import json
import os
import stat

from ipexctl.common.path_patterns import matches_path_pattern
from ipexctl.remote import root_folder
from ipexctl.remote.run_files import run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    from ipexctl.remote.main import Call

CHUNK = 256 * 1024
MOST_FILES = 50000  # files
ROOM = 6 << 20  # bytes of names: an answer is one header


def op_look(call: "Call", root: str, run_id: str) -> "dict[str, str]":
    """{root, run_id} -> {mark}: hosts that share the run's folder have the same one; "" if it does
    not exist: removed, or the run used no separate folder."""
    work = work_folder(root, run_id)
    try:
        with open(os.path.join(os.path.dirname(work), "mark")) as file:
            return {"mark": file.read() if os.path.isdir(work) else ""}
    except OSError:
        return {"mark": ""}


def op_list(call: "Call", root: str, run_id: str, patterns: "list[str]") -> "dict[str, Any]":
    """{root, run_id, patterns} -> {files: [[path, size], ...], more: bool}"""
    work = work_folder(root, run_id)
    pattern_parts = [pattern.split("/") for pattern in patterns]
    files, room = [], ROOM
    for top, folders, names in os.walk(work):
        folders.sort()
        for name in sorted(names):
            full_path = os.path.join(top, name)
            path = os.path.relpath(full_path, work)
            if any(matches_path_pattern(path.split("/"), pattern) for pattern in pattern_parts):
                info = os.lstat(full_path)
                if stat.S_ISREG(info.st_mode):
                    files.append([path, info.st_size])
                    room -= len(json.dumps(files[-1])) + 2
                    if len(files) > MOST_FILES or room < 0:
                        return {"files": files[:-1], "more": True}
    return {"files": files, "more": False}


def op_read(
    call: "Call", root: str, run_id: str, path: str, offset: int, length: int
) -> "dict[str, str]":
    """{root, run_id, path, offset, length} -> the bytes as events, then {refused: why, or ""}"""
    work = work_folder(root, run_id)
    full_path = run_folders.path_in_run_folder(work, path)
    if os.path.realpath(os.path.dirname(full_path)) != os.path.dirname(full_path):
        return {"refused": "reached through a link"}
    try:
        fd = os.open(full_path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as e:
        return {"refused": e.strerror or str(e)}
    try:
        position, end = offset, offset + length
        while position < end:
            data = os.pread(fd, min(CHUNK, end - position), position)
            if not data:
                break
            call.emit({"event": "part"}, data)
            position += len(data)
    except OSError as e:
        return {"refused": e.strerror or str(e)}
    finally:
        os.close(fd)
    return {"refused": ""}


def work_folder(root: str, run_id: str) -> str:
    run = os.path.join(root_folder.prepare_root(root), "runs", run_folders.checked_id(run_id))
    return os.path.realpath(os.path.join(run, "work"))
