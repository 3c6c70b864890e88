"""The step `file`: a file, directory, link, or nothing at a path; with its attributes."""

import os
import stat

from ipexctl.remote.failure import Failure
from ipexctl.remote.play import safe_paths
from ipexctl.remote.play.file_attributes import Attributes, describe, require_owner
from ipexctl.remote.play.task import result
from ipexctl.remote.play.text_diff import text_diff

MOST = 16 << 20
PIECE = 1 << 20
DEEPEST = 200  # folders in folders that are removed


def apply(task):
    args = task.args
    state = args["state"]
    path = safe_paths.absolute(args["path"])
    uses = dict.fromkeys(("reads", "writes"), safe_paths.uses(path))
    task.reads = uses["reads"]
    if state == "touch":
        uses["reads"] = uses["reads"] + ["exists:" + one[len("path:") :] for one in uses["reads"]]
    if state == "absent":
        return result(*_absent(task, path), **uses)
    if state == "directory":
        uses["writes"] = uses["writes"] + made_above(path)
        return result(*_directory(task, path), **uses)
    if state == "link":
        return _link(task, path, uses)
    try:
        with safe_paths.place(path) as place:
            return result(*_file(task, place, state), **uses)
    except safe_paths.MissingFolder as e:
        if task.check:
            new = (args.get("content") or "").encode("utf-8")
            diff = text_diff(path, b"", new) if task.diff else ""
            return result(True, "create", diff, failure=e, **uses)
        raise


def _file(task, place, state):
    content = task.args.get("content")
    found = place.found
    if found is None and content is None and state == "file":
        raise Failure(
            "there is no file %s" % place.path,
            hint="content: ..., or state: touch to make it",
            slug="path-missing",
        )
    new = b"" if content is None and found is None else content and content.encode("utf-8")
    if content == "":
        new = b""
    return write_file(task, place, new)


def write_file(task, place, new):
    """(changed, detail, diff). `new` None: the content stays, the attributes may change."""
    wanted = Attributes(task.args)
    if new is None:
        return attributes_only(task, place, wanted)
    old, found = place.read(MOST)
    if old == new:
        return attributes_only(task, place, wanted)
    changes = wanted.missing(found)
    if task.check:
        place.require_writable()
    else:
        with place.replacing() as file:
            file.write(new)
            wanted.apply_new(file.fileno(), found, 0o666)
    detail = "create" if found is None else ", ".join(filter(None, ["content", describe(changes)]))
    return True, detail, text_diff(place.path, old or b"", new) if task.diff else ""


def attributes_only(task, place, wanted):
    """(changed, detail, ""). A file with other names gets a copy in its place: those may be
    anywhere, and in a folder of another user, that user made them."""
    fd, found = place.open_file()
    if fd is None:
        raise Failure("%s disappeared during the operation" % place.path, slug="path-disappeared")
    with os.fdopen(fd, "rb") as file:
        changes = wanted.missing(found)
        if changes and task.check:
            require_owner(found, place.path)
        elif changes:
            if wanted.fits_in_place(found):
                wanted.apply(fd, place.path)
            else:
                with place.replacing() as new:
                    for piece in iter(lambda: file.read(PIECE), b""):
                        new.write(piece)
                    wanted.apply_new(new.fileno(), found, 0o666)
    return bool(changes), describe(changes), ""


def _absent(task, path):
    try:
        with safe_paths.place(path, follow=False) as place:
            found = place.found
            if found is None:
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
            return True, "remove %s" % safe_paths.shape(found), ""
    except safe_paths.MissingFolder:
        return False, "", ""


def _remove(folder, name, depth=0):
    """Whatever it is; in folders by descriptors, so that no link leads out of them."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=folder)
        return
    if depth > DEEPEST:
        raise Failure(
            "folders are nested deeper than %d" % DEEPEST,
            hint="sh: rm -rf PATH",
            slug="folders-too-deep",
        )
    inside = os.open(name, safe_paths._FOLDER, dir_fd=folder)
    try:
        for each in os.listdir(inside):
            _remove(inside, each, depth + 1)
    finally:
        os.close(inside)
    os.rmdir(name, dir_fd=folder)


def _directory(task, path):
    """With the folders above it, as mkdir -p."""
    wanted = Attributes(task.args)
    missing = _missing_folders(path)
    if missing and task.check:
        with safe_paths.place(missing[0]) as place:
            place.require_writable()
        return True, "create directory", ""
    for each in missing:
        with safe_paths.place(each) as place:
            try:
                # what it may be open to is set below, by its descriptor
                closed = wanted.mode and each == path
                os.mkdir(place.name, 0o700 if closed else 0o777, dir_fd=place.folder)
            except FileExistsError:
                pass
            except OSError as e:
                raise safe_paths.not_written(each, e) from None
    with safe_paths.place(path) as place:
        found = place.found
        if found is None:
            raise Failure("%s disappeared during the operation" % path, slug="path-disappeared")
        if not stat.S_ISDIR(found.st_mode):
            raise Failure(
                "%s is %s, not a directory" % (path, safe_paths.shape(found)),
                slug="wrong-file-kind",
            )
        changes = wanted.missing(found)
        if changes and task.check:
            require_owner(found, path)
        elif changes:
            fd = os.open(place.name, safe_paths._FOLDER, dir_fd=place.folder)
            try:
                wanted.apply(fd, path)
            finally:
                os.close(fd)
    return bool(missing or changes), "create directory" if missing else describe(changes), ""


def made_above(path):
    """The highest folder that a step makes with this one, as what it writes."""
    return ["path:" + each for each in _missing_folders(path)[:1]]


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


def _link(task, path, uses):
    target = task.args["src"]
    try:
        with safe_paths.place(path, follow=False) as place:
            return result(*_link_at(task, place, target), **uses)
    except safe_paths.MissingFolder as e:
        if task.check:
            return result(True, "link to %s" % target, failure=e, **uses)
        raise


def _link_at(task, place, target):
    found = place.found
    if found is not None and not stat.S_ISLNK(found.st_mode):
        raise Failure(
            "%s is %s, not a symbolic link" % (place.path, safe_paths.shape(found)),
            hint="a step before: file: {path: %s, state: absent}" % place.path,
            slug="wrong-file-kind",
        )
    if found is not None and os.readlink(place.name, dir_fd=place.folder) == target:
        return False, "", ""
    if task.check:
        place.require_writable()
    else:
        name = safe_paths.NEW % place.name[: safe_paths.MOST_OF_NAME]
        safe_paths.remove_left(place.folder, name)
        os.symlink(target, name, dir_fd=place.folder)
        os.rename(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    return True, "link to %s" % target, ""
