"""A CPython that came as a blob, under ROOT/pythons/SHA: complete, or not there.

The archive is a tar.gz with python/bin/python3 in it, as python-build-standalone makes them. The
user vouches for it, as for any program that ipexctl starts on hosts.
"""

import os
import re
import tarfile

from ipexctl.common.files import rename_synced, sync_disk
from ipexctl.remote import root_folder
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
            sync_disk(work)
            rename_synced(os.path.join(work, TOP), place)
        finally:
            remove(work)
    return os.path.join(place, "bin", "python3")


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
    with open(path, "rb") as file:
        file.seek(-4, os.SEEK_END)
        return int.from_bytes(file.read(4), "little")


def unpack(call, source, folder):
    """The archive's members in FOLDER, the account's own. Raises OSError for a full disk."""
    os.mkdir(folder, 0o700)
    with tarfile.open(source, "r|gz") as archive:
        archive.extractall(folder, members_of(call, archive))


def members_of(call, archive):
    for number, member in enumerate(archive):
        if number % 1000 == 0:
            call.emit({"event": "alive"})
        parts = member.name.split("/")
        known = member.isreg() or member.isdir() or member.issym() or member.islnk()
        if parts[0] != TOP or ".." in parts or not known:
            what = "%r is a device, or not below %s/" % (member.name[:200], TOP)
            raise Failure("the copied Python is refused: " + what, slug="python-archive-refused")
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        member.mode = 0o700 if member.isdir() or member.mode & 0o100 else 0o600
        yield member
