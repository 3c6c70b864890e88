"""Files by folders that are open, so that nobody can swap a link in between.

A symbolic link on the way is followed only where root or this user made the folder it lies in, and
nobody else can write there. Elsewhere it is refused: a step of root must not write where another
user points it to.
"""

import errno
import os
import stat
from contextlib import contextmanager

from ipexctl.remote.failure import Failure

MOST_LINKS = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)
NEW = ".%s.ipexctl-new"


class Place:
    """An open folder and a name in it. `found` is the lstat of that name, None: not there."""

    def __init__(self, folder, name, path):
        self.folder = folder
        self.name = name
        self.path = path

    @property
    def found(self):
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def read(self, most):
        """The content of a regular file; None: not there."""
        fd = self.open_file()
        if fd is None:
            return None
        with os.fdopen(fd, "rb") as file:
            if os.fstat(fd).st_size > most:
                raise Failure("%s is larger than %d MiB" % (self.path, most >> 20))
            return file.read()

    def open_file(self):
        """The descriptor of a regular file to read, None: not there."""
        found = self.found
        if found is None:
            return None
        if not stat.S_ISREG(found.st_mode):
            raise Failure("%s is not a regular file but %s" % (self.path, shape(found)))
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        return os.open(self.name, flags, dir_fd=self.folder)

    @contextmanager
    def replacing(self):
        """A new file that takes the place of the old one when all of it is on the disk."""
        name = NEW % self.name
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            fd = os.open(name, flags, 0o600, dir_fd=self.folder)
        except FileExistsError:  # of a play that was killed
            os.unlink(name, dir_fd=self.folder)
            fd = os.open(name, flags, 0o600, dir_fd=self.folder)
        file = os.fdopen(fd, "wb")
        try:
            yield file
            file.flush()
            os.fsync(fd)
            os.rename(name, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except BaseException:
            try:
                os.unlink(name, dir_fd=self.folder)
            except OSError:
                pass
            raise
        finally:
            file.close()


@contextmanager
def place(path, follow=True):
    """The Place of an absolute path or one with ~. `follow`: also a link that the path itself is.

    Raises Failure where a folder is missing or a link is not to be followed.
    """
    path = absolute(path)
    folder, name, real = _walk(path, follow)
    try:
        yield Place(folder, name, real)
    finally:
        os.close(folder)


def absolute(path):
    full = os.path.expanduser(path)
    if not full.startswith("/") or "\0" in full:
        raise Failure("%r is not an absolute path" % path, hint="/path, or ~/path")
    return full


def _walk(path, follow):
    parts = _parts(path)
    folder = os.open("/", _FOLDER)
    here = "/"
    links = 0
    try:
        while True:
            if not parts:
                return folder, ".", here
            name, last = parts.pop(0), not parts
            target = _link(folder, name) if follow or not last else None
            if target is None and last:
                return folder, name, os.path.join(here, name)
            if target is not None:
                links += 1
                _refuse_unsafe(folder, here, name, links)
                parts = _parts(target) + parts
                if not target.startswith("/"):
                    continue
                name, here = "/", "/"
            folder = _enter(folder, name, here)
            here = os.path.normpath(os.path.join(here, name))
    except BaseException:
        os.close(folder)
        raise


def _parts(path):
    return [part for part in path.split("/") if part not in ("", ".")]


def _link(folder, name):
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


def _enter(folder, name, here):
    try:
        inside = os.open(name, _FOLDER, dir_fd=folder)
    except OSError as e:
        path = os.path.join(here, name)
        if e.errno == errno.ENOENT:
            hint = "a step before: file: {path: %s, state: directory}" % path
            raise MissingFolder("there is no folder %s" % path, hint=hint) from None
        raise Failure("%s: %s" % (path, e.strerror)) from None
    os.close(folder)
    return inside


class MissingFolder(Failure):
    """In check mode, a step before may be about to make it."""


def _refuse_unsafe(folder, here, name, links):
    path = os.path.join(here, name)
    if links > MOST_LINKS:
        raise Failure("%s: too many symbolic links" % path)
    about = os.fstat(folder)
    if about.st_uid not in (0, os.geteuid()) or about.st_mode & 0o022:
        raise Failure(
            "%s is a symbolic link in a folder that others can write to; not followed" % path,
            "%s belongs to user %d, mode %o" % (here, about.st_uid, stat.S_IMODE(about.st_mode)),
            "name the path it leads to",
        )


def shape(found):
    mode = found.st_mode
    for test, word in (
        (stat.S_ISDIR, "a directory"), (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISREG, "a file"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"),
    ):  # fmt: skip
        if test(mode):
            return word
    return "a device"
