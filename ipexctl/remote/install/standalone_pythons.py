"""A CPython that came as a blob, under ROOT/pythons/SHA: whole, or not there.

The archive is a tar.gz with python/bin/python3 in it, as python-build-standalone makes them. It is
unpacked by hand and in order: nothing can be written through a link or outside of its place.
"""

import os
import re
import stat
import tarfile
import zlib

from ipexctl.remote import durable, root_folder
from ipexctl.remote.blobs import blobs
from ipexctl.remote.failure import Failure, human_size

PLACE = re.compile(r"[0-9a-f]{16}\Z")
TOP = "python"
MOST_BYTES = 4 << 30
MOST_MEMBERS = 200000


def unpacked_interpreter(call, root, sha):
    """The interpreter's path. The caller holds the lock of ROOT and has verified the blob."""
    place = os.path.join(root_folder.subfolder(root, "pythons"), blobs.checked_sha(sha)[:16])
    if not os.path.isdir(place):
        remove_unfinished(root)
        work = "%s.%d" % (place, os.getpid())
        call.emit({"event": "step", "what": "python"})
        source = blobs.path_of(root, sha)
        root_folder.need_space(root, unpacked_size(source), 0)
        try:
            Unpacking(call, work).all(source)
            durable.sync_disk(work)
            durable.rename(work, place)
        except BaseException:
            remove(work)
            raise
    return interpreter(place)


def interpreter(place):
    path = os.path.join(place, "bin", "python3")
    if not os.access(path, os.X_OK):
        raise Failure("the copied Python has no bin/python3 that can be run", place)
    return path


def remove_unfinished(root):
    """Only the lock's holder unpacks, so whatever has not its final name is a dead one's."""
    folder = os.path.join(root, "pythons")
    for name in os.listdir(folder):
        if not PLACE.match(name):
            remove(os.path.join(folder, name))


def unused(root, needed):
    """The places that none of the NEEDED blobs is for."""
    folder = os.path.join(root, "pythons")
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    wanted = {sha[:16] for sha in needed}
    return [os.path.join(folder, n) for n in names if PLACE.match(n) and n not in wanted]


def remove(path):
    import shutil

    shutil.rmtree(path, ignore_errors=True)


def unpacked_size(path):
    """What gzip says at its end, modulo 4 GiB; reading it all would cost as much as unpacking."""
    try:
        with open(path, "rb") as file:
            file.seek(-4, os.SEEK_END)
            return int.from_bytes(file.read(4), "little")
    except OSError as e:
        raise Failure("cannot read the copied Python", e.strerror or str(e)) from None


class Unpacking:
    """One archive into one new folder."""

    def __init__(self, call, place):
        self.call = call
        self.place = place
        self.seen = {}  # type: dict[str, str]  # name -> "folder", "file" or "link"
        self.links = []  # made last: until then no name can lead through one
        self.bytes = 0

    def all(self, source):
        os.mkdir(self.place, 0o700)
        try:
            with tarfile.open(source, "r|gz") as archive:
                for number, member in enumerate(archive):
                    if number > MOST_MEMBERS:
                        raise Failure("the copied Python has too many files")
                    if number % 1000 == 0:
                        self.call.emit({"event": "alive"})
                    self.one(archive, member)
        except (tarfile.TarError, zlib.error, EOFError, UnicodeError) as e:
            raise Failure("the copied Python is not a complete tar.gz", str(e)) from None
        except OSError as e:
            raise Failure("cannot unpack the copied Python", e.strerror or str(e)) from None
        for name, target in self.links:
            self.check_link(name, target)
        for name, target in self.links:
            os.symlink(target, self.path(name))

    def one(self, archive, member):
        name = self.checked(member)
        if name == TOP:
            if not member.isdir():
                self.refuse(member, "is not a folder")
            return
        self.make_parents(member, name)
        if member.isdir():
            self.claim(member, name, "folder")
            if not os.path.isdir(self.path(name)):
                os.mkdir(self.path(name), 0o700)
        elif member.issym():
            self.claim(member, name, "link")
            self.links.append((name, member.linkname))
        elif member.islnk():
            self.claim(member, name, "file")
            self.hard_link(member, name)
        elif member.isreg() and not member.issparse():
            self.claim(member, name, "file")
            self.write(archive, member, name)
        else:
            self.refuse(member, "is neither a file nor a folder nor a link")

    def checked(self, member):
        name = member.name.rstrip("/")
        parts = name.split("/")
        if name.startswith("/") or ".." in parts or "" in parts or "." in parts or "\0" in name:
            self.refuse(member, "would leave its folder")
        if parts[0] != TOP:
            self.refuse(member, "is not below %s/" % TOP)
        if member.mode & (stat.S_ISUID | stat.S_ISGID):
            self.refuse(member, "is set-user-id or set-group-id")
        return name

    def make_parents(self, member, name):
        """Each is a real folder of this archive, never a link or a file."""
        parts = name.split("/")[1:-1]
        above = TOP
        for part in parts:
            above += "/" + part
            kind = self.seen.setdefault(above, "made")
            if kind not in ("folder", "made"):
                self.refuse(member, "would be written through a %s" % kind)
            if not os.path.isdir(self.path(above)):
                os.mkdir(self.path(above), 0o700)

    def claim(self, member, name, kind):
        before = self.seen.get(name)
        if before and not (kind == "folder" and before == "made"):
            self.refuse(member, "is duplicated")
        self.seen[name] = kind

    def write(self, archive, member, name):
        self.bytes += member.size
        if self.bytes > MOST_BYTES:
            raise Failure("the copied Python is larger than %s" % human_size(MOST_BYTES))
        mode = 0o700 if member.mode & 0o100 else 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        source = archive.extractfile(member)
        with os.fdopen(os.open(self.path(name), flags, mode), "wb") as target:
            for chunk in iter(lambda: source.read(1 << 20), b""):
                target.write(chunk)

    def hard_link(self, member, name):
        target = member.linkname.rstrip("/")
        if self.seen.get(target) != "file" or target == name:
            self.refuse(member, "is a link to what is not in it")
        os.link(self.path(target), self.path(name))

    def check_link(self, name, target):
        """Step by step, since `..` after a link leads elsewhere than it looks."""
        if not target or target.startswith("/") or "\0" in target:
            self.refuse_link(name, target)
        here = name.split("/")[:-1]
        for part in target.split("/"):
            if self.seen.get("/".join(here)) == "link":
                self.refuse_link(name, target)
            if part == "..":
                here = here[:-1]
            elif part not in ("", "."):
                here = here + [part]
            if not here:
                self.refuse_link(name, target)

    def path(self, name):
        return os.path.join(self.place, *name.split("/")[1:])

    def refuse(self, member, why):
        raise Failure("the copied Python is refused: %r %s" % (member.name[:200], why))

    def refuse_link(self, name, target):
        what = "%r links to %r, outside of it or through another link" % (name[:200], target[:200])
        raise Failure("the copied Python is refused: " + what)
