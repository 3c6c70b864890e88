"""Access files through open folders, so that no other user can swap in a link.

A symbolic link on the way is followed only where root or this user made the folder it lies in, and
no other user can write there. Elsewhere it is refused: a step of root must not write where another
user points it to.
"""

import errno
import os
import stat
from contextlib import contextmanager

from ipexctl.common.locks import is_named, try_lock
from ipexctl.remote.failure import Failure
from ipexctl.remote.play.task import Missing

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterator
    from typing import BinaryIO

MOST_LINKS = 40
MOST_BYTES = 16 << 20  # limit of a file that is read completely
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)
NEW = ".%s.ipexctl-new"
MOST_OF_NAME = 60  # letters of up to 4 bytes: the result stays below 255 bytes
_TRIES = 20


class PathPlace:
    """An open folder and a name in it. `found`: the lstat of that name, None: not there."""

    def __init__(self, folder: int, name: str, path: str) -> None:
        self.folder = folder
        self.name = name
        self.path = path

    @property
    def found(self) -> "os.stat_result | None":
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def read(self) -> "tuple[bytes | None, os.stat_result | None]":
        """Return (content, stat) of a regular file, read at once; (None, None): not there."""
        fd, status = self.open_file()
        if fd is None or status is None:
            return None, None
        with os.fdopen(fd, "rb") as file:
            if status.st_size > MOST_BYTES:
                raise Failure(
                    "%s is larger than %d MiB" % (self.path, MOST_BYTES >> 20),
                    slug="file-too-large",
                )
            return file.read(), status

    def open_file(self) -> "tuple[int | None, os.stat_result | None]":
        """Return (descriptor to read, stat) of a regular file; (None, None): not there.

        The stat is of the open file: in another user's folder, the name may have changed since.
        """
        status = self.found
        if status is None:
            return None, None
        self.require_file(status)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(self.name, flags, dir_fd=self.folder)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            self.require_file(status)
        return fd, status

    def require_file(self, status: "os.stat_result") -> None:
        if not stat.S_ISREG(status.st_mode):
            raise Failure(
                "%s is %s, not a file" % (self.path, describe_file_type(status)),
                hint="a step before: file: {path: %s, state: absent}" % self.path,
                slug="wrong-file-kind",
            )

    def require_writable(self) -> None:
        """Raise Failure in a check unless a file here may be made, replaced or removed."""
        if not os.access("/proc/self/fd/%d" % self.folder, os.W_OK | os.X_OK):
            raise not_written(self.path, OSError(errno.EACCES, os.strerror(errno.EACCES)))

    @contextmanager
    def open_replacement(self) -> "Iterator[BinaryIO]":
        """Open a new file that replaces the old one once it is completely on the disk."""
        name = NEW % self.name[:MOST_OF_NAME]
        try:
            with os.fdopen(new_file(self.folder, name, self.path), "wb") as file:
                try:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                    os.rename(name, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
                except BaseException:
                    remove_left(self.folder, name)
                    raise
        except OSError as e:
            raise not_written(self.path, e) from None


@contextmanager
def open_place(path: str, follow: bool = True) -> "Iterator[PathPlace]":
    """Return the Place of an absolute or ~ path. `follow`: follow a link at the path itself.

    Raises Failure if a folder is missing or a link must not be followed.
    """
    path = absolute_path(path)
    folder, name, real = _walk_folders(path, follow)
    try:
        yield PathPlace(folder, name, real)
    finally:
        os.close(folder)


def absolute_path(path: str) -> str:
    full = os.path.expanduser(path)
    if not full.startswith("/") or "\0" in full:
        raise Failure(
            "%r is not an absolute path" % path, hint="/path, or ~/path", slug="path-not-absolute"
        )
    return full


def _walk_folders(path: str, follow: bool) -> "tuple[int, str, str]":
    """Return (descriptor of a folder, name in it, path of both without links).

    `..` goes back to the folder that was open before, wherever it may have been moved.
    """
    parts = _parts(path)
    folders = [os.open("/", _FOLDER)]
    names = []  # type: list[str]
    links = 0
    try:
        while parts:
            name, last = parts.pop(0), not parts
            if name == "..":
                if names:
                    os.close(folders.pop())
                    names.pop()
                continue
            parent = "/" + "/".join(names)
            target = _read_link(folders[-1], name) if follow or not last else None
            if target is None and last:
                return folders.pop(), name, os.path.join(parent, name)
            if target is not None:
                links += 1
                _refuse_unsafe(folders[-1], parent, name, links)
                parts = _parts(target) + parts
                while target.startswith("/") and names:
                    os.close(folders.pop())
                    names.pop()
                continue
            folders.append(_enter_folder(folders[-1], name, parent))
            names.append(name)
        return folders.pop(), ".", "/" + "/".join(names)
    finally:
        for folder in folders:
            os.close(folder)


def _parts(path: str) -> "list[str]":
    return [part for part in path.split("/") if part not in ("", ".")]


def _read_link(folder: int, name: str) -> "str | None":
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


def _enter_folder(folder: int, name: str, parent: str) -> int:
    try:
        child = os.open(name, _FOLDER, dir_fd=folder)
    except OSError as e:
        path = os.path.join(parent, name)
        if e.errno == errno.ENOENT:
            hint = "a step before: file: {path: %s, state: directory}" % path
            raise Missing("there is no folder %s" % path, hint=hint, slug="path-missing") from None
        raise Failure("%s: %s" % (path, e.strerror), slug="path-unusable") from None
    return child


def _refuse_unsafe(folder: int, parent: str, name: str, links: int) -> None:
    """Raise Failure if another user could have made this link."""
    path = os.path.join(parent, name)
    if links > MOST_LINKS:
        raise Failure("%s: too many symbolic links" % path, slug="link-circular")
    status = os.fstat(folder)
    forbidden = 0o002 if status.st_gid == os.getegid() else 0o022  # the user's own group is trusted
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & forbidden:
        raise Failure(
            "%s is a symbolic link in a folder that others can write to; not followed" % path,
            "%s belongs to user %d, mode %o"
            % (parent, status.st_uid, stat.S_IMODE(status.st_mode)),
            "name the path it leads to",
            slug="link-unsafe",
        )


# --- new files -----------------------------------------------------------------------------------


def new_file(folder: int, name: str, path: str) -> int:
    """Return the descriptor of a new file, locked by this process.

    Two plays may write a file at the same time. The leftover of a killed one is removed.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    for _ in range(_TRIES):
        try:
            fd = os.open(name, flags, 0o600, dir_fd=folder)
        except FileExistsError:
            _remove_stale(folder, name, path)
            continue
        if try_lock(fd) and is_named(fd, name, folder):
            return fd
        os.close(fd)
    raise Failure(
        "cannot write %s: another process keeps making %s" % (path, name), slug="write-conflict"
    )


def _remove_stale(folder: int, name: str, path: str) -> None:
    """Remove the new file of a play that was killed; raise Failure if a play still writes it."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError:  # a link, or a file of another user
        os.unlink(name, dir_fd=folder)
        return
    try:
        if not try_lock(fd):
            raise Failure(
                "cannot write %s: another play is writing it" % path, slug="write-conflict"
            )
        if is_named(fd, name, folder):
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(fd)


def remove_left(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        pass


def not_written(path: str, error: "OSError") -> "Failure":
    folder = os.path.dirname(path)
    hints = {
        errno.ENOSPC: "df -h %s" % folder,
        errno.EDQUOT: "quota -s",
        errno.EPERM: "lsattr -d %s %s" % (folder, path),
        errno.EACCES: "sudo: true",
    }  # type: dict[int | None, str]
    reason = error.strerror or str(error)
    return Failure(
        "cannot write %s: %s" % (path, reason), hint=hints.get(error.errno, ""), slug="write-failed"
    )


def describe_file_type(status: "os.stat_result") -> str:
    mode = status.st_mode
    for test, word in (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISREG, "a file"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if test(mode):
            return word
    return "a device"
