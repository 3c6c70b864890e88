"""Files from package indexes into the controller's store: each once, resumed, checked.

Nothing here decides what to fetch; a file that hasn't the locked sha256 is thrown away.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import http.client
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from ipexctl.core.lock import Lock, Package
from ipexctl.errors import InputError, IpexctlError, NotHere
from ipexctl.hosts.indexes import Indexes
from ipexctl.hosts.store import Store

CHUNK = 1 << 20
TIMEOUT = 60
ASK = 10  # for a file's size
TRIES = 3

OnBytes = Callable[[int], None]


class FetchFailed(IpexctlError):
    """An index didn't give a file it had named."""

    slug = "fetch"


class Fetcher:
    """`fetched` counts bytes that came over the network."""

    def __init__(self, store: Store, indexes: Indexes) -> None:
        self.store = store
        self.fetched = 0
        self._indexes = indexes
        cafile = os.environ.get("SSL_CERT_FILE") or indexes.cert or None
        context = ssl.create_default_context(cafile=cafile)
        https = urllib.request.HTTPSHandler(context=context)
        self._opener = urllib.request.build_opener(https)

    def fetch(self, files: Sequence[Package], urls: Mapping[str, str], on_bytes: OnBytes) -> None:
        """Afterwards all the files are in the store."""
        with ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(self._one, f, urls[f.sha256], on_bytes) for f in files]
            for job in jobs:
                job.result()

    def sizes(self, lock: Lock, urls: Mapping[str, str]) -> Lock:
        """The lock with the size of every file, as far as somebody tells it without sending it."""
        with ThreadPoolExecutor(8) as pool:
            known = list(pool.map(lambda f: self._sized(f, urls.get(f.sha256, "")), lock.files))
        return replace(lock, packages=tuple(known[:-1]), uv=known[-1])

    def _sized(self, file: Package, url: str) -> Package:
        if file.size or not url:
            return file
        if self.store.has(file.blob):
            return replace(file, size=self.store.path(file.blob).stat().st_size)
        request = urllib.request.Request(url, headers=self._headers(url, 0), method="HEAD")
        try:
            with self._opener.open(request, timeout=ASK) as answer:
                return replace(file, size=int(answer.headers.get("Content-Length") or 0))
        except (OSError, http.client.HTTPException, ValueError):
            return file

    def _one(self, file: Package, url: str, on_bytes: OnBytes) -> None:
        if self.store.has(file.blob):
            return
        parts = self.store.folder / "parts"
        try:
            parts.mkdir(0o700, parents=True, exist_ok=True)
            part = parts / f"{file.sha256}.download"
            with part.open("a+b") as out:
                fcntl.flock(out, fcntl.LOCK_EX)  # another ipexctl may fetch the same file
                if not self.store.has(file.blob):
                    self._complete(file, url, out, on_bytes)
                    self._keep(file, part, out)
        except OSError as e:
            raise NotHere(f"cannot keep {file.file} in {self.store.folder}", why=str(e)) from None

    def _complete(self, file: Package, url: str, out: BinaryIO, on_bytes: OnBytes) -> None:
        if urlsplit(url).scheme == "file":
            return self._copy(file, url, out)
        for attempt in range(1, TRIES + 1):
            try:
                return self._download(url, out, on_bytes)
            except (urllib.error.URLError, http.client.HTTPException, TimeoutError) as e:
                if attempt == TRIES or getattr(e, "code", 500) in (401, 403, 404):
                    host = urlsplit(url).hostname
                    raise FetchFailed(f"{host} did not give {file.file}", why=str(e)) from None
        return None

    def _copy(self, file: Package, url: str, out: BinaryIO) -> None:
        out.truncate(0)
        try:
            with Path(url2pathname(urlsplit(url).path)).open("rb") as source:
                while chunk := source.read(CHUNK):
                    out.write(chunk)
        except FileNotFoundError as e:
            raise InputError(f"{file.file} is gone from its folder", why=str(e)) from None

    def _download(self, url: str, out: BinaryIO, on_bytes: OnBytes) -> None:
        """Goes on where an earlier try stopped, if the server can."""
        have = out.seek(0, os.SEEK_END)
        request = urllib.request.Request(url, headers=self._headers(url, have))
        try:
            answer = self._opener.open(request, timeout=TIMEOUT)
        except urllib.error.HTTPError as e:
            if e.code != 416:
                raise
            return  # all of it is here already; the hash will tell
        with answer:
            if have and answer.status != 206:
                out.truncate(0)
            expected = answer.length
            while chunk := answer.read(CHUNK):
                out.write(chunk)
                self.fetched += len(chunk)
                on_bytes(len(chunk))
                expected = None if expected is None else expected - len(chunk)
        if expected:
            raise http.client.IncompleteRead(b"", expected)

    def _headers(self, url: str, have: int) -> dict[str, str]:
        headers = {"User-Agent": "ipexctl", "Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        host = urlsplit(url).hostname
        for index in (self._indexes.index_url, *self._indexes.extra, *self._indexes.find_links):
            known = urlsplit(index)
            if known.username and known.hostname == host:
                pair = f"{unquote(known.username)}:{unquote(known.password or '')}"
                headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        return headers

    def _keep(self, file: Package, part: Path, out: BinaryIO) -> None:
        out.flush()
        os.fsync(out.fileno())
        digest = hashlib.sha256()
        with part.open("rb") as done:
            while chunk := done.read(CHUNK):
                digest.update(chunk)
        if digest.hexdigest() != file.sha256:
            part.unlink()
            raise FetchFailed(
                f"{file.file} is not the file that was locked",
                why=f"sha256 {digest.hexdigest()} instead of {file.sha256}; it was thrown away",
            )
        place = self.store.path(file.blob)
        place.parent.mkdir(0o700, parents=True, exist_ok=True)
        part.replace(place)


def sized(lock: Lock, store: Store) -> Lock:
    """The lock with the sizes of the files in the store."""

    def with_size(p: Package) -> Package:
        return p if p.size else replace(p, size=store.path(p.blob).stat().st_size)

    return replace(lock, packages=tuple(map(with_size, lock.packages)), uv=with_size(lock.uv))
