"""Fetch files from package indexes into the controller's store: each once, resumed, checked.

The caller decides what to fetch; a file that lacks the locked sha256 is discarded.
"""

from __future__ import annotations

import http.client
import os
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ipexctl.base.remote_file import RemoteFile
from ipexctl.blobs.blob_store import Store, place_of
from ipexctl.common.http_body import BodyBroken
from ipexctl.errors import InputError
from ipexctl.local.environment import environment
from ipexctl.local.user_dirs import make_private
from ipexctl.packages.download import AGAIN, HEADERS, TIMEOUT, Download
from ipexctl.packages.file_fetch import CHUNK, FetchFailed, FileFetch, OnBytes, Tell
from ipexctl.packages.http_opener import Opener
from ipexctl.packages.indexes import CERT_HINT, LOGIN_HINT, Indexes
from ipexctl.stack.lock_file import Lock, LockedPackage

ASK = 10  # seconds to ask for a file's size
GONE = "rm -f ipexctl.lock   # the next install resolves the versions again"


class Fetcher:
    """`fetched`: bytes that came over the network."""

    def __init__(
        self, store: Store, indexes: Indexes, environ: Mapping[str, str] | None = None
    ) -> None:
        self.store = store
        self.fetched = 0
        self._copied: list[int] = []  # bytes of local files
        environ = environment() if environ is None else environ
        self._opener = Opener(indexes, environ)
        seconds = environ.get("UV_HTTP_TIMEOUT", "")
        self._timeout = float(seconds) if seconds.isdecimal() else TIMEOUT

    def fetch(self, files: Sequence[LockedPackage], urls: Mapping[str, str], tell: Tell) -> None:
        """Fetch all the files into the store. After one failure no other is begun."""
        remote_files = [
            RemoteFile(f.file, urls[f.sha256], place_of(f.sha256), f.size or -1, f.sha256)
            for f in files
        ]
        with suppress(OSError):  # reported when a file is saved
            make_private(self.store.folder)
        fetch = FileFetch(self.store.folder, self._bring, tell, "recorded in ipexctl.lock")
        fetch.all(remote_files)
        self.fetched = fetch.fetched - sum(self._copied)

    def sizes(self, lock: Lock, urls: Mapping[str, str]) -> Lock:
        """Return the lock with the size of every file, as far as servers report it separately."""
        lock = with_sizes(lock, self.store)
        with ThreadPoolExecutor(8) as pool:
            sized_files = pool.map(lambda f: self._ask_size(f, urls.get(f.sha256, "")), lock.files)
            by_hash = {file.sha256: file for file in sized_files}
        return lock.each_file(lambda file: by_hash[file.sha256])

    def _ask_size(self, file: LockedPackage, url: str) -> LockedPackage:
        if file.size or not url:
            return file
        request = urllib.request.Request(url, headers=HEADERS, method="HEAD")
        try:
            with self._opener.open(request, timeout=ASK) as answer:
                return replace(file, size=int(answer.headers.get("Content-Length") or 0))
        except (OSError, http.client.HTTPException, ValueError):
            return file

    def _bring(self, out: BinaryIO, file: RemoteFile, on_bytes: OnBytes) -> None:
        if urlsplit(file.url).scheme == "file":
            return self._copy(out, file, on_bytes)
        try:
            Download(self._opener.open, self._timeout).append_to(
                out, file.url, on_bytes, max(file.size, 0)
            )
        except BodyBroken as e:
            received = out.seek(0, os.SEEK_END)
            raise FetchFailed(
                f"{urlsplit(file.url).hostname} did not send {file.path}",
                why=f"{e}; {received / 1e6:.1f} MB of it are kept" if received else str(e),
                hint=_no_retry_hint(e, file.url) or (GONE if e.status in (404, 410) else AGAIN),
            ) from None

    def _copy(self, out: BinaryIO, file: RemoteFile, on_bytes: OnBytes) -> None:
        try:
            with Path(url2pathname(urlsplit(file.url).path)).open("rb") as source:
                source.seek(out.seek(0, os.SEEK_END))
                while chunk := source.read(CHUNK):
                    out.write(chunk)
                    on_bytes(len(chunk))
                    self._copied.append(len(chunk))
        except FileNotFoundError as e:
            raise InputError(
                f"{file.path} disappeared from its folder",
                why=str(e.filename),
                slug="wheel-missing",
            ) from None


def _no_retry_hint(e: BodyBroken, url: str) -> str:
    """Return the hint for an error that a retry does not change."""
    if e.untrusted:
        return CERT_HINT.format(e.untrusted)
    return LOGIN_HINT.format(urlsplit(url).hostname) if e.status in (401, 403) else ""


def with_sizes(lock: Lock, store: Store) -> Lock:
    """Return the lock with the sizes of the files that are in the store."""

    def sized(file: LockedPackage) -> LockedPackage:
        stored = not file.size and store.has(file.blob)
        return replace(file, size=store.path(file.blob).stat().st_size) if stored else file

    return lock.each_file(sized)
