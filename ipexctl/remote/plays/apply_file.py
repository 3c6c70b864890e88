"""The step `file`: a file, directory, link, or nothing at a path; with its attributes."""

import os
import stat

from ipexctl.remote.failure import Failure
from ipexctl.remote.plays import safe_paths
from ipexctl.remote.plays.file_attributes import Attributes, describe
from ipexctl.remote.plays.task import result
from ipexctl.remote.plays.text_diff import text_diff

MOST = 16 << 20


def apply(task):
    args = task.args
    state = args["state"]
    path = safe_paths.absolute(args["path"])
    uses = {"reads": ["path:" + path], "writes": ["path:" + path]}
    if state == "absent":
        return result(*_absent(task, path), **uses)
    if state == "directory":
        return result(*_directory(task, path), **uses)
    if state == "link":
        return result(*_link(task, path), **uses)
    try:
        with safe_paths.place(path) as place:
            return result(*_file(task, place, state), **uses)
    except safe_paths.MissingFolder:
        if task.check:
            return result(True, "create (its folder is not there yet)", **uses)
        raise


def _file(task, place, state):
    content = task.args.get("content")
    found = place.found
    if found is None and content is None and state == "file":
        raise Failure(
            "there is no file %s" % place.path, hint="content: ..., or state: touch to make it"
        )
    new = b"" if content is None and found is None else content and content.encode("utf-8")
    if content == "":
        new = b""
    return write_file(task, place, new)


def write_file(task, place, new):
    """(changed, detail, diff). `new` None: the content stays, the attributes may change."""
    found, wanted = place.found, Attributes(task.args)
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise Failure(
            "%s is %s, not a file" % (place.path, safe_paths.shape(found)),
            hint="a step before: file: {path: %s, state: absent}" % place.path,
        )
    old = place.read(MOST) if found is not None and new is not None else None
    changes = wanted.missing(found)
    if found is not None and (new is None or old == new):
        if changes and not task.check:
            fd = os.open(place.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=place.folder)
            try:
                wanted.apply(fd)
            finally:
                os.close(fd)
        return bool(changes), describe(changes), ""
    if not task.check:
        with place.replacing() as file:
            file.write(new)
            wanted.apply_new(file.fileno(), found, 0o666)
    detail = "create" if found is None else ", ".join(filter(None, ["content", describe(changes)]))
    return True, detail, text_diff(place.path, old or b"", new) if task.diff else ""


def _absent(task, path):
    try:
        with safe_paths.place(path, follow=False) as place:
            found = place.found
            if found is None:
                return False, "", ""
            if place.name == "." or path.rstrip("/") == "":
                raise Failure("/ is not removed")
            if not task.check:
                _remove(place.folder, place.name)
            return True, "remove %s" % safe_paths.shape(found), ""
    except safe_paths.MissingFolder:
        return False, "", ""


def _remove(folder, name):
    """Whatever it is; in folders by descriptors, so that no link leads out of them."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=folder)
        return
    inside = os.open(name, safe_paths._FOLDER, dir_fd=folder)
    try:
        for each in os.listdir(inside):
            _remove(inside, each)
    finally:
        os.close(inside)
    os.rmdir(name, dir_fd=folder)


def _directory(task, path):
    """With the folders above it, as mkdir -p."""
    wanted = Attributes(task.args)
    missing = _missing_folders(path)
    if missing and task.check:
        return True, "create directory", ""
    for each in missing:
        with safe_paths.place(each) as place:
            try:
                os.mkdir(place.name, 0o777, dir_fd=place.folder)
            except FileExistsError:
                pass
    with safe_paths.place(path) as place:
        found = place.found
        if not stat.S_ISDIR(found.st_mode):
            raise Failure("%s is %s, not a directory" % (path, safe_paths.shape(found)))
        changes = wanted.missing(found)
        if changes and not task.check:
            fd = os.open(place.name, safe_paths._FOLDER, dir_fd=place.folder)
            try:
                wanted.apply(fd)
            finally:
                os.close(fd)
    return bool(missing or changes), "create directory" if missing else describe(changes), ""


def _missing_folders(path):
    missing = []
    while path.rstrip("/"):
        try:
            with safe_paths.place(path) as place:
                if place.found is not None:
                    break
        except safe_paths.MissingFolder:
            pass
        missing.append(path)
        path = os.path.dirname(path.rstrip("/"))
    return missing[::-1]


def _link(task, path):
    target = task.args["src"]
    try:
        with safe_paths.place(path, follow=False) as place:
            return _link_at(task, place, target)
    except safe_paths.MissingFolder:
        if task.check:
            return True, "link to %s" % target, ""
        raise


def _link_at(task, place, target):
    found = place.found
    if found is not None and not stat.S_ISLNK(found.st_mode):
        raise Failure(
            "%s is %s, not a symbolic link" % (place.path, safe_paths.shape(found)),
            hint="a step before: file: {path: %s, state: absent}" % place.path,
        )
    if found is not None and os.readlink(place.name, dir_fd=place.folder) == target:
        return False, "", ""
    if not task.check:
        name = safe_paths.NEW % place.name
        try:
            os.unlink(name, dir_fd=place.folder)
        except FileNotFoundError:
            pass
        os.symlink(target, name, dir_fd=place.folder)
        os.rename(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    return True, "link to %s" % target, ""
