"""What ranks left in the run's folder: which files match, and their bytes."""

import json
import os
import re
import stat

from ipexctl.remote import root_folder
from ipexctl.remote.run_files import run_folders

CHUNK = 256 * 1024
MOST = 50000  # files
ROOM = 6 << 20  # bytes of their names: an answer is one header


def op_look(call, h):
    """{root, run_id} -> {mark}: hosts that share the run's folder have the same one; "" where it is
    not: removed, or the run used no folder of its own."""
    work = work_folder(h)
    try:
        with open(os.path.join(os.path.dirname(work), "mark")) as file:
            return {"mark": file.read() if os.path.isdir(work) else ""}
    except OSError:
        return {"mark": ""}


def op_list(call, h):
    """{root, run_id, patterns} -> {files: [[path, size], ...], more: bool}"""
    work = work_folder(h)
    wanted = [re.compile(glob_to_regex(pattern)) for pattern in h["patterns"]]
    found, room = [], ROOM
    for top, folders, names in os.walk(work):
        folders.sort()
        for name in sorted(names):
            full = os.path.join(top, name)
            path = os.path.relpath(full, work)
            if any(w.match(path) for w in wanted):
                info = os.lstat(full)
                if stat.S_ISREG(info.st_mode):
                    found.append([path, info.st_size])
                    room -= len(json.dumps(found[-1])) + 2
                    if len(found) > MOST or room < 0:
                        return {"files": found[:-1], "more": True}
    return {"files": found, "more": False}


def op_read(call, h):
    """{root, run_id, path, offset, length} -> the bytes as events, then {refused: why, or ""}"""
    work = work_folder(h)
    full = run_folders.inside(work, h["path"])
    if os.path.realpath(os.path.dirname(full)) != os.path.dirname(full):
        return {"refused": "reached through a link"}
    try:
        fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as e:
        return {"refused": e.strerror}
    try:
        at, end = h["offset"], h["offset"] + h["length"]
        while at < end:
            data = read(fd, min(CHUNK, end - at), at)
            if isinstance(data, str):
                return {"refused": data}
            if not data:
                break
            call.emit({"event": "part"}, data)
            at += len(data)
    finally:
        os.close(fd)
    return {"refused": ""}


def read(fd, count, at):
    """The bytes; or why there are none, as text."""
    try:
        return os.pread(fd, count, at)
    except OSError as e:
        return e.strerror


def work_folder(h):
    root = root_folder.checked(h["root"])
    return os.path.realpath(os.path.join(root, "runs", run_folders.run_id(h), "work"))


def glob_to_regex(pattern):
    """A glob as an expression: ** crosses folders, * does not; a folder means all that is in it."""
    out, i = "", 0
    while i < len(pattern):
        if pattern.startswith("**/", i):
            out, i = out + "(?:.*/)?", i + 3
        elif pattern.startswith("**", i):
            out, i = out + ".*", i + 2
        elif pattern[i] in "*?":
            out, i = out + ("[^/]*" if pattern[i] == "*" else "[^/]"), i + 1
        elif pattern[i] == "[" and set_end(pattern, i) > 0:
            end = set_end(pattern, i)
            out, i = out + set_to_regex(pattern[i + 1 : end]), end + 1
        else:
            out, i = out + re.escape(pattern[i]), i + 1
    return "(?s)" + out + r"(?:/.*)?\Z"


def set_end(pattern, i):
    """Where the set that begins at `i` has its "]"; -1 where it has none. A first "]" is in it."""
    return pattern.find("]", i + (3 if pattern.startswith("[!", i) else 2))


def set_to_regex(members):
    """0-9a as an expression for one character; !0-9a for any other one. Never a slash."""
    others = members.startswith("!")
    found, rest = "", members[1:] if others else members
    while rest:
        size = 3 if rest[1:2] == "-" and len(rest) > 2 else 1
        first, last = rest[0], rest[size - 1]
        if first <= last:
            found += "%s-%s" % (re.escape(first), re.escape(last))
        rest = rest[size:]
    if others:
        return "[^/%s]" % found
    return "(?!/)[%s]" % found if found else "(?!)"
