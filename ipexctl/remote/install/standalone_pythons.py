"""A CPython that came as a blob, under ROOT/pythons/SHA: complete, or not there.

The archive is a tar.gz with python/bin/python3 in it, as python-build-standalone makes them.
"""

import os
import re
import tarfile
import zlib

from ipexctl.remote import durable, root_folder
from ipexctl.remote.blobs import blobs
from ipexctl.remote.failure import Failure

PLACE = re.compile(r"[0-9a-f]{16}\Z")
TOP = "python"


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
    try:
        with tarfile.open(source, "r|gz") as archive:
            archive.extractall(os.path.dirname(place), below_top(call, archive, place))
    except (tarfile.TarError, zlib.error, EOFError, UnicodeError) as e:
        raise Failure(
            "the copied Python is not a complete tar.gz", str(e), slug="python-archive-incomplete"
        ) from None
    except OSError as e:
        why = e.strerror or str(e)
        raise Failure("cannot unpack the copied Python", why, slug="unpack-failed") from None


def below_top(call, archive, place):
    """The members with their names below PLACE. Those before one are on the disk when it is looked
    at, so that none is written through a link that leads out of PLACE."""
    folder, name = os.path.split(place)
    inside = os.path.realpath(place) + os.sep
    for number, member in enumerate(archive):
        if number % 1000 == 0:
            call.emit({"event": "alive"})
        top, _, below = member.name.rstrip("/").partition("/")
        paths = [place + "/" + below] * (not member.issym())
        if member.islnk():
            member.linkname = name + member.linkname[len(TOP) :]
            paths.append(os.path.join(folder, member.linkname))
        ordinary = member.isreg() or member.isdir() or member.issym() or member.islnk()
        paths.append(os.path.dirname(place + "/" + below) if below else place)
        leaves = not all((os.path.realpath(path) + os.sep).startswith(inside) for path in paths)
        if top != TOP or not ordinary or leaves:
            what = "%r is not a file, folder or link in %s/" % (member.name[:200], TOP)
            raise Failure("the copied Python is refused: " + what, slug="python-archive-refused")
        member.name = (name + "/" + below).rstrip("/")
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        program = os.access(paths[1], os.X_OK) if member.islnk() else member.mode & 0o100
        member.mode = 0o700 if member.isdir() or program else 0o600
        yield member
