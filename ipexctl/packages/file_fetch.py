"""Fetch files of an index or another source into a local folder: each once, verified, resumed."""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import io
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from email.message import Message
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from ipexctl.base.quoting import quote
from ipexctl.base.remote_file import Content, RemoteFile
from ipexctl.base.sizes import format_bytes
from ipexctl.common.files import hash_of
from ipexctl.common.http_body import FINAL, BodyBroken, read_body_pieces
from ipexctl.common.locks import is_named
from ipexctl.errors import IpexctlError, NotHere, reason_of
from ipexctl.local.file_hashes import Hashes, Stamp, file_stamp
from ipexctl.packages.download import AGAIN, HEADERS, LEAST, TIMEOUT, fetch_all
from ipexctl.quick_dataclass import dataclass

CHUNK = 1 << 20
TRIES = 2  # of a file whose content is wrong
PART = ".ipexctl-part"
ROOM = "free some space; or set XDG_CACHE_HOME (of the Hub: HF_HUB_CACHE) to another disk"
MOST_BYTES = 64 << 20  # bytes of a description
LONGEST = 120.0  # seconds that it may take

OnBytes = Callable[[int], None]
Tell = Callable[[int, int], None]  # bytes so far, total bytes
Bring = Callable[[BinaryIO, RemoteFile, OnBytes], None]  # appends what a part lacks


def next_step(status: int, url: str) -> str:
    """Return the hint for an HTTP status; a final one does not change on retry."""
    return f"check the address: curl -I {quote((url,))}" if status in FINAL else AGAIN


class FetchFailed(IpexctlError):
    """A source did not provide a file that it lists."""

    slug = "fetch"


class PullFailed(FetchFailed):
    slug = "pull-failed"


@dataclass
class FileFetch:
    """`bring` raises FetchFailed. `described`: in words, which files were expected. `hashes`: of
    files in the folder, if it is kept for long. `fetched`: bytes that came over the network."""

    folder: Path
    bring: Bring
    tell: Tell
    described: str = "that its source describes"
    hashes: Hashes | None = None
    fetched: int = 0
    _done: int = 0
    _total: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)

    def all(self, files: Sequence[RemoteFile]) -> dict[str, Content]:
        """Fetch all into the folder. After one failure no other is begun."""
        unique = list({remote.local: remote for remote in files}.values())
        self._total = sum(max(remote.size, 0) for remote in unique)
        self._need_space(unique)
        try:
            return dict(
                fetch_all(unique, lambda file: (file.local, self._get_file(file)), self._over)
            )
        finally:
            if self.hashes:
                self.hashes.save()

    def lacking(self, files: Sequence[RemoteFile]) -> int:
        """Return the bytes that are not here yet, as far as sizes are known."""
        paths = {self.folder / file.local: file.size for file in files}
        return sum(max(size - _fetched_size(path), 0) for path, size in paths.items())

    def _need_space(self, files: Sequence[RemoteFile]) -> None:
        missing = self.lacking(files)
        try:
            for folder in {self.folder, *((self.folder / file.local).parent for file in files)}:
                folder.mkdir(parents=True, exist_ok=True)
            stats = os.statvfs(self.folder)
        except OSError as e:
            raise self._cannot_save(e) from None
        if (free := stats.f_bavail * stats.f_frsize) < missing:
            raise NotHere(
                f"this machine has no space for {format_bytes(missing)} in {self.folder}",
                why=f"{format_bytes(free)} are free",
                hint=ROOM,
                slug="no-space-here",
            )

    def _get_file(self, file: RemoteFile) -> Content:
        """Return the content of a file that is here, else fetch it."""
        path = self.folder / file.local
        try:
            if content := self._read(file, path):
                self._count_bytes(content.size, 0)
                return content
            for _ in range(TRIES):
                if content := self._fetch(file, path):
                    return content
        except OSError as e:
            raise self._cannot_save(e) from None
        raise FetchFailed(
            f"{file.path} is not the file {self.described}",
            why=f"its hash is not {file.content}, in {TRIES} attempts; what came was discarded",
            hint="run the same command again later",
            slug="fetch-damaged",
        )

    def _fetch(self, file: RemoteFile, path: Path) -> Content | None:
        """Fetch one, or wait for a process that does; None: the content is not the expected one."""
        part = path.with_name(path.name + PART)
        with part.open("a+b") as out:
            fcntl.flock(out, fcntl.LOCK_EX)
            if content := self._read(file, path):
                return content
            if not is_named(out.fileno(), part):  # discarded by the process that had it
                return None
            self._count_bytes(out.seek(0, os.SEEK_END), 0)
            self.bring(out, file, lambda n: self._count_bytes(n, n))
            out.flush()
            os.fsync(out.fileno())
            if not (sha := right_hash(file, out)):
                self._count_bytes(-out.tell(), 0)
                part.unlink(missing_ok=True)
                return None
            part.replace(path)
        return self._remember_content(file, file_stamp(path.stat()), sha)

    def _read(self, file: RemoteFile, path: Path) -> Content | None:
        """Read a local file; None if it is not the right one, which stays until it is replaced."""
        if not path.exists():
            return None
        mark = file_stamp(path.stat())
        sha = self.hashes.known_hash(file.local, mark) if self.hashes else ""
        if sha and len(file.content) == len(sha) and sha != file.content:
            return None
        if not sha:
            with path.open("rb") as opened:
                sha = right_hash(file, opened)
            if not sha:
                return None
        return self._remember_content(file, mark, sha)

    def _remember_content(self, file: RemoteFile, mark: Stamp, sha: str) -> Content:
        if self.hashes:
            self.hashes.add(file.local, mark, sha)
        return Content(sha, mark[0])

    def _count_bytes(self, size: int, fetched: int) -> None:
        with self._lock:
            self._done += size
            self.fetched += fetched
            self.tell(self._done, self._total)
        if self._over.is_set():
            raise FetchFailed("another file could not be fetched")

    def _cannot_save(self, e: OSError) -> NotHere:
        return NotHere(
            f"cannot save files in {self.folder}",
            why=reason_of(e),
            hint=ROOM,
            slug="cannot-save",
        )


def right_hash(file: RemoteFile, opened: BinaryIO) -> str:
    """Return the sha256 of the file, "" if its size or content is not the expected one."""
    size = opened.seek(0, os.SEEK_END)
    opened.seek(0)
    git = hashlib.sha1(b"blob %d\0" % size)
    sha256 = hash_of(opened, git.update if len(file.content) == 40 else len).hexdigest()
    matches = file.content in ("", git.hexdigest(), sha256)
    return sha256 if matches and file.size in (-1, size) else ""


def _fetched_size(path: Path) -> int:
    for candidate in (path, path.with_name(path.name + PART)):
        with suppress(OSError):
            return candidate.stat().st_size
    return 0


# --- requests for descriptions of files ----------------------------------------------------------


@dataclass(frozen=True)
class Answered:
    status: int
    headers: Mapping[str, str] | Message
    body: bytes = b""


def request_url(
    open_url: Callable[..., http.client.HTTPResponse], method: str, url: str
) -> Answered:
    """Send a request. `open_url` adds a token if needed. Raises PullFailed without an answer."""
    request = urllib.request.Request(url, headers=HEADERS, method=method)
    body = io.BytesIO()
    try:
        with open_url(request, timeout=TIMEOUT) as answer:
            for piece in read_body_pieces(answer, MOST_BYTES, TIMEOUT, LEAST, LONGEST):
                body.write(piece)
            return Answered(answer.status, answer.headers, body.getvalue())
    except urllib.error.HTTPError as e:
        e.close()
        return Answered(e.code, e.headers)
    except (BodyBroken, http.client.HTTPException, OSError, ValueError) as e:
        site = urlsplit(url).hostname
        why = str(getattr(e, "reason", e)) or type(e).__name__
        message = f"{site} did not describe its files" if body.tell() else f"cannot reach {site}"
        raise PullFailed(message, why=why) from None
