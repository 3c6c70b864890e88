"""Files from package indexes into the controller's store: each once, resumed, checked.

Nothing here decides what to fetch; a file that hasn't the locked sha256 is thrown away.
"""

from __future__ import annotations

import http.client
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ipexctl.blobs.blob_store import Damaged, Store, hash_of
from ipexctl.common.http_body import Broken
from ipexctl.errors import InputError, IpexctlError
from ipexctl.install.stack.lock_file import Lock, Package
from ipexctl.local.environment import environment
from ipexctl.packages.download import AGAIN, HEADERS, TIMEOUT, Download, fetch_all
from ipexctl.packages.http_opener import Opener
from ipexctl.packages.indexes import CERT_HINT, LOGIN_HINT, Indexes

CHUNK = 1 << 20
ASK = 10  # for a file's size
GONE = "rm -f ipexctl.lock   # the next install resolves the versions again"

OnBytes = Callable[[int], None]


class FetchFailed(IpexctlError):
    """An index didn't give a file it had named."""

    slug = "fetch"


class Fetcher:
    """`fetched`: bytes that came over the network; `done`: with what earlier tries had left."""

    def __init__(
        self, store: Store, indexes: Indexes, environ: Mapping[str, str] | None = None
    ) -> None:
        self.store = store
        self.fetched = self.done = 0
        self._counting = threading.Lock()
        self._over = threading.Event()
        environ = environment() if environ is None else environ
        self._opener = Opener(indexes, environ)
        seconds = environ.get("UV_HTTP_TIMEOUT", "")
        self._timeout = float(seconds) if seconds.isdecimal() else TIMEOUT

    def fetch(self, files: Sequence[Package], urls: Mapping[str, str], on_bytes: OnBytes) -> None:
        """Afterwards all the files are in the store. After one failure no other is begun."""
        self._over.clear()
        fetch_all(files, lambda file: self._one(file, urls[file.sha256], on_bytes), self._over)

    def sizes(self, lock: Lock, urls: Mapping[str, str]) -> Lock:
        """The lock with the size of every file, as far as somebody tells it without sending it."""
        lock = with_sizes(lock, self.store)
        with ThreadPoolExecutor(8) as pool:
            known = pool.map(lambda f: self._sized(f, urls.get(f.sha256, "")), lock.files)
            sized = {file.sha256: file for file in known}
        return lock.each_file(lambda file: sized[file.sha256])

    def _sized(self, file: Package, url: str) -> Package:
        if file.size or not url:
            return file
        request = urllib.request.Request(url, headers=HEADERS, method="HEAD")
        try:
            with self._opener.open(request, timeout=ASK) as answer:
                return replace(file, size=int(answer.headers.get("Content-Length") or 0))
        except (OSError, http.client.HTTPException, ValueError):
            return file

    def _one(self, file: Package, url: str, on_bytes: OnBytes) -> None:
        try:
            self.store.fill(file.blob, lambda out: self._complete(file, url, out, on_bytes))
        except Damaged as e:
            raise FetchFailed(
                f"{file.file} is not the file recorded in ipexctl.lock",
                why=f"sha256 {e} instead of {file.sha256}; it was discarded",
                hint=f"run the same command again; if that does not help: {GONE}",
                slug="fetch",
            ) from None
        except OSError as e:
            raise self.store.cannot_keep(file.file, e) from None

    def _complete(self, file: Package, url: str, out: BinaryIO, on_bytes: OnBytes) -> None:
        if urlsplit(url).scheme == "file":
            return self._copy(file, url, out, on_bytes)
        had = out.seek(0, os.SEEK_END)
        self._count(had, 0)

        def count(n: int) -> None:
            self._count(n, n)
            on_bytes(n)

        try:
            download = Download(self._opener.open, self._timeout)
            download.into(out, url, count, file.size)
            if had and hash_of(out) != file.sha256:  # what was left was not of this file
                out.truncate(0)
                self._count(-had, 0)
                download.into(out, url, count, file.size)
        except Broken as e:
            kept = out.seek(0, os.SEEK_END)
            raise FetchFailed(
                f"{urlsplit(url).hostname} did not send {file.file}",
                why=f"{e}; {kept / 1e6:.1f} MB of it are kept" if kept else str(e),
                hint=_hint(e, url) or (GONE if e.status in (404, 410) else AGAIN),
                slug="fetch",
            ) from None

    def _count(self, done: int, fetched: int) -> None:
        with self._counting:
            self.done += done
            self.fetched += fetched
        if self._over.is_set():
            raise FetchFailed("another download failed", slug="fetch")

    def _copy(self, file: Package, url: str, out: BinaryIO, on_bytes: OnBytes) -> None:
        out.truncate(0)
        try:
            with Path(url2pathname(urlsplit(url).path)).open("rb") as source:
                while chunk := source.read(CHUNK):
                    out.write(chunk)
                    self._count(len(chunk), 0)
                    on_bytes(len(chunk))
        except FileNotFoundError as e:
            raise InputError(
                f"{file.file} disappeared from its folder",
                why=str(e.filename),
                slug="wheel-missing",
            ) from None


def _hint(e: Broken, url: str) -> str:
    """For what no second try would change."""
    if e.untrusted:
        return CERT_HINT.format(e.untrusted)
    return LOGIN_HINT.format(urlsplit(url).hostname) if e.status in (401, 403) else ""


def with_sizes(lock: Lock, store: Store) -> Lock:
    """The lock with the sizes of the files that are in the store."""

    def sized(file: Package) -> Package:
        known = not file.size and store.has(file.blob)
        return replace(file, size=store.path(file.blob).stat().st_size) if known else file

    return lock.each_file(sized)
