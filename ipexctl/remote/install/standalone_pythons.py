"""A CPython that came as a blob, under ROOT/pythons/SHA: complete, or not there.

The archive is a tar.gz with python/bin/python3 in it, as python-build-standalone makes them.
Nothing is written outside of its place, and no link in it leads there.
"""

import os
import re
import stat
import tarfile
import zlib

from ipexctl.remote import durable, root_folder
from ipexctl.remote.blobs import blobs
from ipexctl.remote.failure import Failure

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
            unpack(call, source, work)
            durable.sync_disk(work)
            durable.rename(work, place)
        except BaseException:
            remove(work)
            raise
    return interpreter(place)


def interpreter(place):
    path = os.path.join(place, "bin", "python3")
    if not os.access(path, os.X_OK):
        raise Failure(
            "the copied Python has no bin/python3 that can be run",
            place,
            slug="python-archive-invalid",
        )
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
        raise Failure(
            "cannot read the copied Python", e.strerror or str(e), slug="blob-unreadable"
        ) from None


def unpack(call, source, place):
    """Everything below TOP in the archive becomes PLACE, the account's own."""
    os.mkdir(place, 0o700)
    links = []  # type: list[str]
    try:
        with tarfile.open(source, "r|gz") as archive:
            archive.extractall(os.path.dirname(place), below_top(call, archive, place, links))
        for link in links:
            if os.path.isabs(os.readlink(link)) or not is_inside(place, link):
                raise refusal("%r links to what is outside of it" % link[len(place) + 1 :])
    except (tarfile.TarError, zlib.error, EOFError, UnicodeError) as e:
        raise Failure(
            "the copied Python is not a complete tar.gz", str(e), slug="python-archive-incomplete"
        ) from None
    except OSError as e:
        why = e.strerror or str(e)
        raise Failure("cannot unpack the copied Python", why, slug="unpack-failed") from None


def below_top(call, archive, place, links):
    """The members with their names below PLACE; symbolic links are added to LINKS. Those before one
    are on the disk when it is looked at, so that none is written through a link."""
    folder, name = os.path.split(place)
    seen = {}  # type: dict[str, str]  # name -> "folder", "file" or "link"
    size = 0
    for number, member in enumerate(archive):
        if number % 1000 == 0:
            call.emit({"event": "alive"})
        size += member.size
        if number > MOST_MEMBERS or size > MOST_BYTES:
            raise refusal("it is larger than a Python is")
        check(member, seen)
        path = os.path.join(place, *member.name.split("/")[1:])
        if not is_inside(place, os.path.dirname(path) if path != place else place):
            raise refusal("%r would be written outside of it" % member.name[:200])
        if member.issym():
            links.append(path)
        if member.islnk():
            member.linkname = name + member.linkname[len(TOP) :]
            program = os.access(os.path.join(folder, member.linkname), os.X_OK)
        else:
            program = member.mode & 0o100
        member.name = os.path.relpath(path, folder)
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        member.mode = 0o700 if member.isdir() or program else 0o600
        yield member


def check(member, seen):
    """Is it a file, a folder or a link with a name of its own below TOP?"""
    member.name = member.name.rstrip("/")
    parts = member.name.split("/")
    above = ["/".join(parts[:n]) for n in range(1, len(parts))]
    shown = repr(member.name[:200])
    if parts[0] != TOP or not set(parts).isdisjoint(("", ".", "..")) or "\0" in member.name:
        raise refusal("%s is not below %s/" % (shown, TOP))
    if member.name == TOP and not member.isdir():
        raise refusal("%s is not a folder" % shown)
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        raise refusal("%s is neither a file nor a folder nor a link" % shown)
    if member.issparse() or member.mode & (stat.S_ISUID | stat.S_ISGID):
        raise refusal("%s is sparse, or set-user-id or set-group-id" % shown)
    if any(seen.get(name, "folder") != "folder" for name in above):
        raise refusal("%s would be written through a file or a link" % shown)
    if member.name in seen and not (member.isdir() and seen[member.name] == "folder"):
        raise refusal("%s is duplicated" % shown)
    if member.islnk() and seen.get(member.linkname) != "file":
        raise refusal("%s is a link to what is not in it" % shown)
    seen.update((name, "folder") for name in above)
    seen[member.name] = "folder" if member.isdir() else "link" if member.issym() else "file"


def is_inside(place, path):
    return (os.path.realpath(path) + os.sep).startswith(os.path.realpath(place) + os.sep)


def refusal(why):
    return Failure("the copied Python is refused: " + why, slug="python-archive-refused")
