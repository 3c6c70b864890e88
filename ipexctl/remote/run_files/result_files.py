"""Find the files that ranks left in the run's folder, and send them."""

import json
import os
import stat

from ipexctl.common.files import open_regular
from ipexctl.common.path_patterns import matches_path_pattern
from ipexctl.common.result_answers import FolderMark, OutputFiles, PieceSent
from ipexctl.remote import root_folder
from ipexctl.remote.run_files import run_folders

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from ipexctl.remote.main import Call

CHUNK = 256 * 1024
MOST_FILES = 50000  # files
ROOM = 6 << 20  # bytes of names: an answer is one header


def op_look(call: "Call", root: str, run_id: str) -> FolderMark:
    work = work_folder(root, run_id)
    try:
        with open_regular(os.path.join(os.path.dirname(work), "mark")) as file:
            return FolderMark(file.read().decode("utf-8") if os.path.isdir(work) else "")
    except (OSError, ValueError):
        return FolderMark("")


def op_list(call: "Call", root: str, run_id: str, patterns: "list[str]") -> OutputFiles:
    work = work_folder(root, run_id)
    pattern_parts = [pattern.split("/") for pattern in patterns]
    files, room = [], ROOM  # type: list[tuple[str, int]], int
    for top, folders, names in os.walk(work):
        folders.sort()
        for name in sorted(names):
            full_path = os.path.join(top, name)
            path = os.path.relpath(full_path, work)
            if any(matches_path_pattern(path.split("/"), pattern) for pattern in pattern_parts):
                info = os.lstat(full_path)
                if stat.S_ISREG(info.st_mode):
                    files.append((path, info.st_size))
                    room -= len(json.dumps(files[-1])) + 2
                    if len(files) > MOST_FILES or room < 0:
                        return OutputFiles(files[:-1], more=True)
    return OutputFiles(files)


def op_read(call: "Call", root: str, run_id: str, path: str, offset: int, length: int) -> PieceSent:
    """Send the bytes in events."""
    work = work_folder(root, run_id)
    full_path = run_folders.path_in_run_folder(work, path)
    if os.path.realpath(os.path.dirname(full_path)) != os.path.dirname(full_path):
        return PieceSent("reached through a link")
    try:
        fd = os.open(full_path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as e:
        return PieceSent(e.strerror or str(e))
    try:
        position, end = offset, offset + length
        while position < end:
            data = os.pread(fd, min(CHUNK, end - position), position)
            if not data:
                break
            call.emit({"event": "part"}, data)
            position += len(data)
    except OSError as e:
        return PieceSent(e.strerror or str(e))
    finally:
        os.close(fd)
    return PieceSent()


def work_folder(root: str, run_id: str) -> str:
    run = os.path.join(root_folder.prepare_root(root), "runs", run_folders.checked_id(run_id))
    return os.path.realpath(os.path.join(run, "work"))
