"""Files at an address: https:// by our own download, s3:// and others through fsspec."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from ipexctl.base.remote_file import RemoteFile
from ipexctl.common.http_body import BodyBroken
from ipexctl.data.rules.pulled_tree import UrlSource, is_plain
from ipexctl.errors import InputError, NotHere
from ipexctl.local.environment import environment
from ipexctl.local.user_dirs import cache_dir
from ipexctl.packages.download import Download
from ipexctl.packages.file_fetch import (
    CHUNK,
    FetchFailed,
    OnBytes,
    PullFailed,
    next_step,
    request_url,
)
from ipexctl.packages.http_opener import Opener
from ipexctl.packages.indexes import Indexes
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class UrlClient:
    source: UrlSource

    def cache(self, files: Sequence[RemoteFile]) -> Path:
        """Return a folder for these versions of the files."""
        text = "\0".join(f"{file.url} {file.local} {file.size}" for file in files)
        return cache_dir() / "pulled" / hashlib.sha256(text.encode()).hexdigest()[:16]

    def look(self) -> tuple[RemoteFile, ...]:
        """Return the files at the address. Raises PullFailed or InputError."""
        if self._is_http:
            return (self._ask_head(),)
        source, filesystem = self.source, self._open_filesystem()
        try:
            entries = filesystem.find(source.url, detail=True)
        except Exception as e:  # each filesystem has its own
            raise self._failed(str(e)) from None
        if not entries:
            raise InputError(f"there is nothing at {source.url}", slug="source-empty")
        top = filesystem._strip_protocol(source.url).rstrip("/")
        files = [self._describe_entry(path, info, top) for path, info in sorted(entries.items())]
        if source.sha256 and len(files) > 1:
            raise InputError(f"{source.url} is not one file: it has no sha256", slug="no-hash")
        return tuple(files)

    def bring(self, out: BinaryIO, file: RemoteFile, on_bytes: OnBytes) -> None:
        """Append the rest of the file to `out`."""
        if self._is_http:
            try:
                download = Download(self._opener().open, longest=330.0)
                return download.append_to(out, file.url, on_bytes, max(file.size, 0))
            except BodyBroken as e:
                raise self._failed(str(e), e.status) from None
        try:
            with self._open_filesystem().open(file.url, "rb") as opened:
                opened.seek(out.tell())
                while chunk := opened.read(CHUNK):
                    out.write(chunk)
                    on_bytes(len(chunk))
        except FetchFailed:
            raise
        except Exception as e:
            raise self._failed(str(e)) from None

    @property
    def _is_http(self) -> bool:
        return urlsplit(self.source.url).scheme in ("http", "https")

    def _opener(self) -> Opener:
        return Opener(Indexes(), environment(), stays_public=True)

    def _ask_head(self) -> RemoteFile:
        """Return the file's size and version, as far as the server reports them."""
        answer = request_url(self._opener().open, "HEAD", self.source.url)
        if answer.status != 200:
            raise self._failed(f"HTTP {answer.status}", answer.status)
        headers = answer.headers
        size = headers.get("Content-Length", "")
        mark = headers.get("ETag") or headers.get("Last-Modified") or ""
        file = posixpath.basename(unquote(self.source.file)) or "data"
        return self._make_file(file, self.source.url, int(size) if size.isdecimal() else -1, mark)

    def _describe_entry(self, path: str, info: Any, top: str) -> RemoteFile:
        relative = path[len(top) :].lstrip("/") or posixpath.basename(path)
        marks = [str(info[key]) for key in ("ETag", "etag", "LastModified", "mtime") if key in info]
        return self._make_file(relative, path, int(info.get("size") or 0), " ".join(marks))

    def _make_file(self, path: str, url: str, size: int, mark: str) -> RemoteFile:
        if not is_plain(path):
            raise InputError(
                f"{url} would become a file called {path[:200]!r}, which is not taken",
                slug="source-invalid",
            )
        local = hashlib.sha256(f"{path} {mark}".encode()).hexdigest()[:32]
        return RemoteFile(path, url, local, size, self.source.sha256)

    def _open_filesystem(self) -> Any:
        scheme = urlsplit(self.source.url).scheme
        try:
            from fsspec.core import url_to_fs

            return url_to_fs(self.source.url)[0]
        except (ImportError, ValueError) as e:  # ValueError: for a scheme that fsspec does not know
            package = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}.get(scheme, "fsspec")
            install = f"pip install {package}   # into the environment of ipexctl"
            workaround = "fetch the files with another tool, then: ipexctl data push FOLDER"
            raise NotHere(
                f"cannot read {scheme}:// addresses here",
                why=str(e),
                hint=install if isinstance(e, ImportError) else workaround,
                slug="filesystem-missing",
            ) from None
        except Exception as e:  # ftp:// connects here
            raise self._failed(str(e)) from None

    def _failed(self, why: str, status: int = 0) -> PullFailed:
        """Return the error. `status`: of HTTP; 0 if there is none."""
        shown = self.source.url.partition("?")[0]  # a query may be a key
        host = urlsplit(shown).hostname or ""
        hint = next_step(status, shown)
        return PullFailed(f"{host} did not send {shown}", why=why, hint=hint)
