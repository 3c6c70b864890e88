"""A CPython that came as a blob, under ROOT/pythons/SHA: complete, or not there.

The archive is a tar.gz with python/bin/python3 in it. The user vouches for it, as for any program
that ipexctl starts on hosts.
"""

import os
import re
import tarfile

from ipexctl.common.files import remove, rename_synced, sync_disk
from ipexctl.common.tolerant_reads import names_in
from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blobs

PLACE = re.compile(r"[0-9a-f]{16}\Z")
TOP = "python"


def unpacked_interpreter(call, root, sha):
    """The interpreter's path. The caller holds the lock of ROOT and has verified the blob."""
    place = os.path.join(root_folder.subfolder(root, "pythons"), sha[:16])
    if not os.path.isdir(place):
        remove_unfinished(root)
        work = "%s.%d" % (place, os.getpid())
        call.emit({"event": "step", "what": "python"})
        try:
            unpack(blobs.path_of(root, sha), work)
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
    wanted = {sha[:16] for sha in needed}
    names = filter(PLACE.match, names_in(folder))
    return [os.path.join(folder, name) for name in names if name not in wanted]


def unpack(source, folder):
    """Unpack what carried_python.py of the controller packed. Raises OSError for a full disk."""
    os.mkdir(folder, 0o700)
    with tarfile.open(source, "r|gz") as archive:
        archive.extractall(folder)
