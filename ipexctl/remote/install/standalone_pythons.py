"""Unpack a CPython that came as a blob to ROOT/pythons/SHA, completely or not at all.

The archive is a tar.gz with python/bin/python3 in it. The user vouches for it, as for any program
that ipexctl starts on hosts.
"""

import os
import re
import tarfile

from ipexctl.common.files import remove_path, rename_synced, sync_disk
from ipexctl.common.tolerant_reads import names_in
from ipexctl.remote import root_folder
from ipexctl.remote.blobs import blobs

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from collections.abc import Iterable

    from ipexctl.remote.main import Call

PLACE = re.compile(r"[0-9a-f]{16}\Z")
TOP = "python"


def unpacked_interpreter(call: "Call", root: str, sha: str) -> str:
    """Return the interpreter's path. The caller holds ROOT's lock and has verified the blob."""
    folder = os.path.join(root_folder.make_subfolder(root, "pythons"), sha[:16])
    if not os.path.isdir(folder):
        remove_unfinished(root)
        work = "%s.%d" % (folder, os.getpid())
        call.emit({"event": "step", "what": "python"})
        try:
            unpack_python(blobs.path_of(root, sha), work)
            sync_disk(work)
            rename_synced(os.path.join(work, TOP), folder)
        finally:
            remove_path(work)
    return os.path.join(folder, "bin", "python3")


def remove_unfinished(root: str) -> None:
    """Remove what a killed process left: only the holder of the lock unpacks here."""
    folder = os.path.join(root, "pythons")
    for name in os.listdir(folder):
        if not PLACE.match(name):
            remove_path(os.path.join(folder, name))


def list_unused_pythons(root: str, needed: "Iterable[str]") -> "list[str]":
    """Return the folders that belong to none of the NEEDED blobs."""
    folder = os.path.join(root, "pythons")
    prefixes = {sha[:16] for sha in needed}
    names = filter(PLACE.match, names_in(folder))
    return [os.path.join(folder, name) for name in names if name not in prefixes]


def unpack_python(source: str, folder: str) -> None:
    """Unpack what the controller's carried_python.py packed. Raise OSError for a full disk."""
    os.mkdir(folder, 0o700)
    with tarfile.open(source, "r|gz") as archive:
        archive.extractall(folder)
