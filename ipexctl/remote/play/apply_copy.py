"""The step `copy`: files of the controller, or text, at a path here."""

import os

from ipexctl.common.files import hash_of
from ipexctl.remote.play import safe_paths
from ipexctl.remote.play.apply_file import attributes_only, made_above, make_directory, replace_file
from ipexctl.remote.play.file_attributes import Attributes
from ipexctl.remote.play.task import Missing, step_failure
from ipexctl.remote.play.text_diff import MOST_DIFF_BYTES, text_diff

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any, BinaryIO

    from ipexctl.remote.play.safe_paths import PathPlace
    from ipexctl.remote.play.task import Result, Task


def apply(task: "Task") -> "Result":
    """args: files [{name, sha256, size, executable}]; `name` is relative to dest, "" is dest."""
    args = task.args
    dest = safe_paths.absolute_path(args["dest"])
    task.touches(dest)
    changes, diffs = [], []
    task.writes += made_above(dest) if args["folders"] else []
    attributes = Attributes(dict(args, mode=args["directory_mode"]))
    for folder in args["folders"]:
        if make_directory(task, _join_below(dest, folder), attributes)[0]:
            changes.append("%s/" % (folder or dest))
    for file in args["files"]:
        path = _join_below(_path_in_folder(dest, args, file), file["name"])
        detail, diff = _copy(task, path, file)
        if detail:
            changes.append("%s: %s" % (file["name"], detail) if file["name"] else detail)
            diffs.append(diff)
    summary = "; ".join(changes[:3]) + ("; %d more" % (len(changes) - 3) if changes[3:] else "")
    return bool(changes), summary, "".join(diffs)


def _path_in_folder(dest: str, args: "dict[str, Any]", file: "dict[str, Any]") -> str:
    """Return the path for a file: a single file goes into a folder under its own name, as in cp."""
    single = not file["name"]
    if single and (args["dest"].endswith("/") or os.path.isdir(dest)):
        return os.path.join(dest, args["base"])
    return dest


def _join_below(top: str, name: str) -> str:
    return os.path.join(top, name) if name else top


def _copy(task: "Task", path: str, file: "dict[str, Any]") -> "tuple[str, str]":
    """Copy a file. Return what changed and the diff; ("", "") if nothing did."""
    try:
        with safe_paths.open_place(path) as place:
            return _copy_to(task, place, file)
    except Missing as e:
        if not task.check:
            raise
        if not task.args["folders"]:  # else the step creates the folder itself
            task.failure = step_failure(e)
        small = task.diff and file["size"] <= MOST_DIFF_BYTES
        return "create", text_diff(path, b"", _content(task, file)) if small else ""


def _copy_to(task: "Task", place: "PathPlace", file: "dict[str, Any]") -> "tuple[str, str]":
    status, digest = stat_and_hash(place)
    attributes = Attributes(task.args)
    if digest == file["sha256"]:
        return attributes_only(task, place, attributes)[1:]
    diff = ""
    if task.diff and max(file["size"], status.st_size if status else 0) <= MOST_DIFF_BYTES:
        diff = text_diff(place.path, place.read()[0] or b"", _content(task, file))
    default = 0o777 if file["executable"] else 0o666
    detail = replace_file(
        task, place, status, attributes, lambda new: _fill_file(task, file, new), default
    )
    return detail, diff


def stat_and_hash(place: "PathPlace") -> "tuple[os.stat_result | None, str]":
    """Return (stat, SHA-256) of the existing file; (None, "") without one."""
    fd, status = place.open_file()
    if fd is None:
        return None, ""
    with os.fdopen(fd, "rb") as file:
        return status, hash_of(file).hexdigest()


def _content(task: "Task", file: "dict[str, Any]") -> bytes:
    import io

    data = io.BytesIO()
    _fill_file(task, file, data)
    return data.getvalue()


def _fill_file(task: "Task", file: "dict[str, Any]", new: "BinaryIO") -> None:
    if "text" in file:
        new.write(file["text"].encode("utf-8"))
    else:
        task.receive(file["sha256"], new)
