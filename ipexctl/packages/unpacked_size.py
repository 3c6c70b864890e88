"""How large wheels are unpacked, by their tables of contents: read before they are fetched."""

from __future__ import annotations

import http.client
import io
import os
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname
from zipfile import BadZipFile, ZipFile

from ipexctl.blobs.blob_store import Room, Store
from ipexctl.install.stack.lock_file import Lock, Package

TAIL = 64 << 10  # most tables of contents are in it
LARGEST = 16 << 20  # of a table of contents
TIMEOUT = 5.0
AT_ONCE = 8
PYTHON_FILES = 5000  # about as many as a CPython has

Open = Callable[..., Any]


def room_unpacked(
    lock: Lock, urls: Mapping[str, str], store: Store, open_url: Open | None = None
) -> Room | None:
    """The disk space of an environment with these files. `urls`: where those are that the store
    does not have, by sha256. None where one of them is unknown: its index serves no parts of files,
    or does not answer."""

    def one(file: Package) -> Room | None:
        try:
            with ZipFile(_opened(file, urls, store, open_url)) as archive:
                members = archive.infolist()
        except (OSError, BadZipFile, http.client.HTTPException, ValueError, KeyError):
            return None
        return Room(sum(m.file_size for m in members), len(members))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(one, lock.packages))
    if lock.cpython:
        found.append(_python(store.path(lock.cpython.blob)))
    known = [room for room in found if room]
    if len(known) < len(found):
        return None
    return Room(sum(r.bytes for r in known), sum(r.files for r in known))


def _python(archive: Path) -> Room | None:
    """Its bytes are what gzip says at the end of a file, modulo 4 GiB."""
    try:
        with archive.open("rb") as file:
            file.seek(-4, os.SEEK_END)
            return Room(int.from_bytes(file.read(4), "little"), PYTHON_FILES)
    except OSError:
        return None


def _opened(file: Package, urls: Mapping[str, str], store: Store, open_url: Open | None) -> Any:
    if store.has(file.blob):
        return store.path(file.blob)
    url = urls[file.sha256]
    if urlsplit(url).scheme == "file":
        return Path(url2pathname(urlsplit(url).path))
    if open_url is None:
        raise KeyError(url)
    return io.BufferedReader(_Ranges(url, file.size, open_url), TAIL)


class _Ranges(io.RawIOBase):
    """A file on a web server, of which only what is read is fetched."""

    def __init__(self, url: str, size: int, open_url: Open) -> None:
        self._url, self._size, self._open = url, size, open_url
        self._at, self._left = 0, LARGEST

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), self._size - self._at)
        self._left -= size
        if size <= 0 or self._left < 0:
            return 0
        span = {"Range": f"bytes={self._at}-{self._at + size - 1}", "Accept-Encoding": "identity"}
        request = urllib.request.Request(self._url, headers=span)
        with self._open(request, timeout=TIMEOUT) as answer:
            if answer.status != 206:
                raise OSError("the server does not support range requests")
            data = answer.read(size)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
