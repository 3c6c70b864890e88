"""Check the root, ipexctl's folder on a host: its owner, who could replace it, and free space."""

import errno
import json
import os
import stat

from ipexctl.common.files import read_json, remove_path
from ipexctl.common.folder_trust import has_acl, is_private_group, passed_folders
from ipexctl.common.root_paths import PATH_HINT, PATH_WHY, path_problem
from ipexctl.common.sizes import format_bytes
from ipexctl.remote.failure import FULL, Failure, disk_full

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    Mark = dict[str, list[str]]  # made: folders that ipexctl created; before: older entries

SPARE = 64 << 20  # bytes left free for other programs that write to this disk
SPARE_INODES = 1000
FIRST_USER = 1000  # accounts below are those of the system and its administrators
MARK = ".ipexctl-root"  # lists what ipexctl created here, for `ipexctl remove --all`


def check_existing_root(text: str) -> str:
    """Return the root as `checked` does, but create nothing: it may not exist."""
    root = expand_root_path(text)
    if os.path.lexists(root):
        return prepare_root(text, marks=False)
    parent = os.path.dirname(root)
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    check_parents(root)
    if not os.path.isdir(parent) or not os.access(parent, os.W_OK | os.X_OK):
        raise cannot_make(root, "%s cannot be written to" % parent)
    return root


def is_absent(text: str) -> bool:
    """Return whether the root was never created; `checked` reports an invalid path."""
    return not os.path.isdir(os.path.expanduser(text))


def cannot_make(root: str, why: str) -> "Failure":
    hint = "--root FOLDER   # one you may write to"
    return Failure("cannot create the folder %s" % root, why, hint, slug="root-not-creatable")


def expand_root_path(text: str) -> str:
    root = os.path.expanduser(text)
    if not os.path.isabs(root):
        raise Failure(
            "the root folder %r is not absolute" % text,
            hint="--root /some/folder",
            slug="root-invalid",
        )
    root = os.path.normpath(root)
    problem = path_problem(root, os.path.realpath(root))
    if problem:
        raise Failure("the root folder " + problem, PATH_WHY, PATH_HINT, slug="root-unusable")
    return root


def prepare_root(text: str, marks: bool = True) -> str:
    """Return the absolute path of a root that only this user can change; create and mark it."""
    root = expand_root_path(text)
    try:
        check_parents(root)  # before a folder is made where others could replace it
        make_root(root)
        info = os.stat(root)
    except OSError as e:
        raise cannot_make(root, e.strerror or str(e)) from None
    if info.st_uid != os.geteuid():
        raise Failure(
            "%s belongs to another user (uid %d)" % (root, info.st_uid),
            "its owner could change the programs that run from it",
            "--root FOLDER   # one of your own",
            slug="root-of-another-user",
        )
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Failure(
            "%s is writable by other users" % root,
            "they could change the programs that run from it",
            "chmod go-w %s" % root,
            slug="root-writable-by-others",
        )
    check_parents(root)
    if marks and not os.path.lexists(os.path.join(root, MARK)):
        try:
            write_mark(root, made_here(root))
        except OSError:  # a full or read-only disk: the operation itself reports it
            pass
    return root


def make_root(root: str) -> None:
    """Create the folder together with its mark, in one step."""
    missing, path = [], root  # type: list[str], str
    while not os.path.lexists(path):
        missing.insert(0, path)
        path = os.path.dirname(path)
    if not missing:
        os.makedirs(root, 0o700, exist_ok=True)  # raises OSError for anything but a folder
        return
    os.makedirs(os.path.dirname(root), 0o700, exist_ok=True)
    part = "%s.%s" % (root, os.urandom(8).hex())
    os.mkdir(part, 0o700)
    try:
        write_mark(part, {"made": missing, "before": []})
        os.rename(part, root)
    except OSError:
        remove_path(part)
        if not os.path.isdir(root):  # otherwise another agent was first
            raise


def write_mark(root: str, mark: "Mark") -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(os.path.join(root, MARK), flags, 0o600), "w") as file:
        json.dump(mark, file)


def made_here(root: str) -> "Mark":
    """Return {made: folders that ipexctl created, before: entries older than the mark}."""
    mark = read_json(os.path.join(root, MARK)) or {}
    if all(isinstance(mark.get(key), list) for key in ("made", "before")):
        return mark
    return {"made": [], "before": sorted(os.listdir(root))}


def check_parents(root: str) -> None:
    """Check who could rename a folder above and put another in its place, as sshd's StrictModes."""
    for parent in reversed(passed_folders(root)):
        info = os.stat(parent)
        owners = {info.st_uid, os.lstat(parent).st_uid}  # of a link, too
        foreign = sorted(uid for uid in owners - {os.geteuid()} if uid >= FIRST_USER)
        by_group = info.st_mode & stat.S_IWGRP and (
            has_acl(parent) or not is_private_group(info.st_gid)
        )
        open_to_others = info.st_mode & stat.S_IWOTH or by_group
        if foreign:
            problem, hint = "belongs to another user (uid %d)" % foreign[0], "of your own"
        elif open_to_others and not info.st_mode & stat.S_ISVTX:
            problem, hint = "is writable by other users", "or: chmod go-w %s" % parent
        else:
            continue
        raise Failure(
            "%s, above the root folder, %s" % (parent, problem),
            "they could replace the root folder, and so the programs that run from it",
            "--root FOLDER   # %s" % hint,
            slug="root-parent-unsafe",
        )


def make_subfolder(root: str, *names: str) -> str:
    """Create folders level by level: makedirs sets the mode of the last one only."""
    path = root
    for name in names:
        path = os.path.join(path, name)
        try:
            os.mkdir(path, 0o700)
        except OSError as e:
            if e.errno in FULL:
                raise disk_full(root, 0) from None
            if e.errno != errno.EEXIST or not os.path.isdir(path):
                raise Failure(
                    "cannot create the folder %s" % path,
                    e.strerror or str(e),
                    slug="folder-not-creatable",
                ) from None
    return path


# --- room ----------------------------------------------------------------------------------------


def need_space(root: str, size: int, count: int) -> None:
    """Raise Failure unless the disk has room for `size` bytes in `count` files."""
    disk = os.statvfs(root)
    free = disk.f_bavail * disk.f_frsize
    if size and free < size + SPARE:
        raise Failure(
            "not enough disk space in %s: %s is needed and %s must stay free, but only %s is free"
            % (root, format_bytes(size), format_bytes(SPARE), format_bytes(free)),
            "nothing was copied, because a partial copy would be unusable",
            "--root FOLDER   # on a bigger disk; or free some space",
            slug="no-space",
        )
    if disk.f_files and count and disk.f_favail < count + SPARE_INODES:
        raise Failure(
            "not enough inodes in %s: only %d are free" % (root, disk.f_favail),
            "",
            "--root FOLDER   # on another disk",
            slug="no-space",
        )


def explain_disk_failure(e: "Failure | OSError", root: str, size: int) -> "Failure | OSError":
    """Return the failure; if its cause is a full disk, explain that."""
    reason = e.why if isinstance(e, Failure) else e.strerror or str(e)
    if any(os.strerror(code) in reason for code in FULL):
        return disk_full(root, size)
    return e


def write_failure(e: OSError, root: str, size: int) -> "Failure":
    if e.errno in FULL:
        return disk_full(root, size)
    return Failure("cannot write to %s: %s" % (root, e.strerror or e), slug="root-not-writable")
