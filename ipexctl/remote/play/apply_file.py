"""The step `file`: a file, directory, link, or nothing at a path; with its attributes."""

import os
import shutil
import stat

from ipexctl.remote.failure import Failure
from ipexctl.remote.play import safe_paths
from ipexctl.remote.play.file_attributes import Attributes, require_owner
from ipexctl.remote.play.task import Missing
from ipexctl.remote.play.text_diff import text_diff

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Callable
    from typing import BinaryIO

    from ipexctl.remote.play.safe_paths import PathPlace
    from ipexctl.remote.play.task import Result, Task


def apply(task: "Task") -> "Result":
    args = task.args
    state = args["state"]
    path = safe_paths.absolute_path(args["path"])
    task.touches(path)
    if state == "absent":
        return _make_absent(task, path)
    if state == "directory":
        task.writes += made_above(path)
        return make_directory(task, path, Attributes(args))
    if state == "link":
        task.if_missing = True, "link to %s" % args["src"], ""
        with safe_paths.open_place(path, follow=False) as place:
            return _link_at(task, place, args["src"])
    if state == "touch":
        task.reads += ["exists:" + entry[len("path:") :] for entry in task.reads]
    new = None if args["content"] is None else args["content"].encode("utf-8")
    task.if_missing = True, "create", text_diff(path, b"", new or b"") if task.diff else ""
    with safe_paths.open_place(path) as place:
        if new is None and place.found is None:
            new = b""
            if state == "file":
                raise Failure(
                    "there is no file %s" % place.path,
                    hint="content: ..., or state: touch to make it",
                    slug="path-missing",
                )
        return write_file(task, place, new, Attributes(args))


def write_file(
    task: "Task", place: "PathPlace", new: "bytes | None", attributes: "Attributes"
) -> "tuple[bool, str, str]":
    """Return (changed, detail, diff). `new` None: keep the content, set the attributes."""
    if new is None:
        return attributes_only(task, place, attributes)
    old, status = place.read()
    if old == new:
        return attributes_only(task, place, attributes)
    detail = replace_file(task, place, status, attributes, lambda file: file.write(new))
    return True, detail, text_diff(place.path, old or b"", new) if task.diff else ""


def replace_file(
    task: "Task",
    place: "PathPlace",
    status: "os.stat_result | None",
    attributes: "Attributes",
    fill: "Callable[[BinaryIO], object]",
    default: int = 0o666,
) -> str:
    """Replace a file (`status`: its stat, or None) with a new one that `fill` writes. Return in
    words what that changes."""
    changes = attributes.changes(status)
    if task.check:
        place.require_writable()
    else:
        with place.open_replacement() as file:
            fill(file)
            attributes.apply_new(file.fileno(), status, default)
    return "create" if status is None else ", ".join(filter(None, ["content", changes]))


def attributes_only(
    task: "Task", place: "PathPlace", attributes: "Attributes"
) -> "tuple[bool, str, str]":
    """Return (changed, detail, ""). A file with several names is replaced by a copy: the other
    names may be anywhere, and in another user's folder that user may have made them."""
    fd, status = place.open_file()
    if fd is None or status is None:
        raise Failure("%s disappeared during the operation" % place.path, slug="path-disappeared")
    with os.fdopen(fd, "rb") as file:
        changes = attributes.changes(status)
        if changes and task.check:
            require_owner(status, place.path)
        elif changes:
            if attributes.fits_in_place(status):
                attributes.apply(fd, place.path)
            else:
                replace_file(
                    task, place, status, attributes, lambda new: shutil.copyfileobj(file, new)
                )
    return bool(changes), changes, ""


def _make_absent(task: "Task", path: str) -> "Result":
    try:
        with safe_paths.open_place(path, follow=False) as place:
            status = place.found
            if status is None:
                return False, "", ""
            if place.name == ".":
                raise Failure(
                    "%s is %s, which ipexctl never removes" % (path, place.path),
                    slug="path-protected",
                )
            if task.check:
                place.require_writable()
            else:
                _remove(place.folder, place.name)
            return True, "remove %s" % safe_paths.describe_file_type(status), ""
    except Missing:
        return False, "", ""


def _remove(folder: int, name: str) -> None:
    """Remove a file or a folder; folders by descriptors, so that no link leads out of them."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(name, dir_fd=folder)
        return
    fd = os.open(name, safe_paths._FOLDER, dir_fd=folder)
    try:
        for child in os.listdir(fd):
            _remove(fd, child)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=folder)


def make_directory(task: "Task", path: str, attributes: "Attributes") -> "tuple[bool, str, str]":
    """Create a directory and those above it, as mkdir -p does; set its attributes."""
    missing = _missing_folders(path)
    if missing and task.check:
        with safe_paths.open_place(missing[0]) as place:
            place.require_writable()
        return True, "create directory", ""
    for folder in missing:
        with safe_paths.open_place(folder) as place:
            try:
                # its final mode is set below, by its descriptor
                private = attributes.mode and folder == path
                os.mkdir(place.name, 0o700 if private else 0o777, dir_fd=place.folder)
            except FileExistsError:
                pass
            except OSError as e:
                raise safe_paths.not_written(folder, e) from None
    with safe_paths.open_place(path) as place:
        status = place.found
        if status is None:
            raise Failure("%s disappeared during the operation" % path, slug="path-disappeared")
        if not stat.S_ISDIR(status.st_mode):
            raise Failure(
                "%s is %s, not a directory" % (path, safe_paths.describe_file_type(status)),
                slug="wrong-file-kind",
            )
        changes = attributes.changes(status)
        if changes and task.check:
            require_owner(status, path)
        elif changes:
            fd = os.open(place.name, safe_paths._FOLDER, dir_fd=place.folder)
            try:
                attributes.apply(fd, path)
            finally:
                os.close(fd)
    return bool(missing or changes), "create directory" if missing else changes, ""


def made_above(path: str) -> "list[str]":
    """Return the highest folder that the step creates, as an entry of its `writes`."""
    return ["path:" + folder for folder in _missing_folders(path)[:1]]


def _missing_folders(path: str) -> "list[str]":
    missing = []
    while path.rstrip("/"):
        try:
            with safe_paths.open_place(path) as place:
                if place.found is not None:
                    break
        except Missing:
            pass
        missing.append(path)
        path = os.path.dirname(path.rstrip("/"))
    return missing[::-1]


def _link_at(task: "Task", place: "PathPlace", target: str) -> "Result":
    """Make or replace a symbolic link; refuse to replace anything else."""
    status = place.found
    if status is not None and not stat.S_ISLNK(status.st_mode):
        raise Failure(
            "%s is %s, not a symbolic link" % (place.path, safe_paths.describe_file_type(status)),
            hint="a step before: file: {path: %s, state: absent}" % place.path,
            slug="wrong-file-kind",
        )
    if status is not None and os.readlink(place.name, dir_fd=place.folder) == target:
        return False, "", ""
    if task.check:
        place.require_writable()
    else:
        name = safe_paths.NEW % place.name[: safe_paths.MOST_OF_NAME]
        safe_paths.remove_left(place.folder, name)
        os.symlink(target, name, dir_fd=place.folder)
        os.rename(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    return True, "link to %s" % target, ""
