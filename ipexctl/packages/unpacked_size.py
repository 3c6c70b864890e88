"""How large wheels are unpacked, by their tables of contents."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname
from zipfile import BadZipFile, ZipFile

from ipexctl.blobs.blob_store import Room, Store
from ipexctl.install.stack.lock_file import Lock, Package

PYTHON_FILES = 5000  # about as many as a CPython has


def room_unpacked(lock: Lock, urls: Mapping[str, str], store: Store) -> Room | None:
    """The disk space of an environment with these files. `urls`: where those are that the store
    does not have, by sha256. None where one of them is not on this machine."""
    try:
        found = [_of_wheel(_path(file, urls, store)) for file in lock.packages]
        if lock.cpython:
            found.append(_of_python(store.path(lock.cpython.blob)))
    except (OSError, BadZipFile, ValueError):
        return None
    return Room(sum(r.bytes for r in found), sum(r.files for r in found))


def _path(file: Package, urls: Mapping[str, str], store: Store) -> Path:
    url = urlsplit(urls.get(file.sha256, ""))
    if url.scheme == "file" and not store.has(file.blob):
        return Path(url2pathname(url.path))
    return store.path(file.blob)


def _of_wheel(path: Path) -> Room:
    with ZipFile(path) as archive:
        members = archive.infolist()
    return Room(sum(m.file_size for m in members), len(members))


def _of_python(archive: Path) -> Room:
    """Its bytes are what gzip says at the end of a file, modulo 4 GiB."""
    with archive.open("rb") as file:
        file.seek(-4, os.SEEK_END)
        return Room(int.from_bytes(file.read(4), "little"), PYTHON_FILES)
