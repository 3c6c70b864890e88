"""A small server with the hub's API, and the ways in which it can refuse."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

LFS = 10_000  # bytes; larger files have a sha256, as with Git LFS
TOKEN = "hf_only_of_this_test"
_API = re.compile(r"/api/(models|datasets)/([^/]+/[^/]+?)(?:/revision/(.+))?$")
_FILE = re.compile(r"(/datasets)?/([^/]+/[^/]+)/resolve/([0-9a-f]{40})/(.+)$")


@dataclass
class Repo:
    """`files`: path -> content, or the path of a file with it."""

    files: dict[str, bytes | Path]
    gated: bool = False
    private: bool = False

    @property
    def commit(self) -> str:
        return hashlib.sha1(repr(sorted(self.files)).encode()).hexdigest()


@dataclass
class Hub:
    url: str = ""
    repos: dict[tuple[str, str], Repo] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)  # "GET /path"
    tokens: list[str] = field(default_factory=list)  # "site: Authorization"
    sent: Counter[str] = field(default_factory=Counter)  # bytes of each file
    busy: int = 0  # so many answers are 429
    after: str = "1"  # its Retry-After
    wrong: Counter[str] = field(default_factory=Counter)  # so often it sends other bytes
    cut: dict[str, int] = field(default_factory=dict)  # once, the connection ends after these
    elsewhere: str = ""  # large files are at this address
    rate: float = 0  # bytes per second of one answer; 0: no limit

    def add(self, kind: str, name: str, **options: bool) -> Repo:
        return self.repos.setdefault((kind, name), Repo({}, **options))


def content_of(file: bytes | Path) -> bytes:
    return file if isinstance(file, bytes) else file.read_bytes()


def description(file: bytes | Path) -> dict[str, object]:
    data = content_of(file)
    size, sha256 = len(data), hashlib.sha256(data).hexdigest()
    git = hashlib.sha1(b"blob %d\0" % size + data).hexdigest()
    lfs = {"lfs": {"size": size, "sha256": sha256, "pointerSize": 130}} if size > LFS else {}
    return {"size": size, "blobId": git, **lfs}


@contextmanager
def served(hub: Hub, address: str = "127.0.0.1") -> Iterator[Hub]:
    class Handler(_Handler):
        pass

    Handler.hub = hub
    server = _Server((address, 0), Handler)
    hub.url = f"http://{address}:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        pass  # a client that went away


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"
    described: dict[str, dict[str, object]] = {}

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub, path = self.hub, unquote(urlsplit(self.path).path)
        hub.seen.append(f"{self.command} {path}")
        said = self.headers.get("Authorization", "")
        hub.tokens.append(f"{self.headers['Host']}: {said}")
        if hub.busy:
            hub.busy -= 1
            return self._refuse(429, "", {"Retry-After": hub.after})
        if found := _API.fullmatch(path):
            return self._describe(found[1], found[2])
        if found := _FILE.fullmatch(path):
            kind = "datasets" if found[1] else "models"
            return self._file(hub.repos[kind, found[2]], found[4])
        for repo in hub.repos.values():
            for name, file in repo.files.items():
                if path in (f"/cdn/{name}", f"/plain/{name}"):
                    return self._send(name, file)
        return self._refuse(404, "EntryNotFound")

    def _is_known(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _describe(self, kind: str, name: str) -> None:
        repo = self.hub.repos.get((kind, name))
        if repo is None or (repo.private and not self._is_known()):
            return self._refuse(404 if self._is_known() else 401, "RepoNotFound")
        siblings = [{"rfilename": n, **self._known(f)} for n, f in repo.files.items()]
        body = {"_id": "0", "id": name, "modelId": name, "sha": repo.commit, "siblings": siblings}
        return self._answer(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def _known(self, file: bytes | Path) -> dict[str, object]:
        if isinstance(file, bytes):
            return description(file)
        return self.described.setdefault(str(file), description(file))

    def _file(self, repo: Repo, name: str) -> None:
        if repo.gated and not self._is_known():
            return self._refuse(401, "GatedRepo")
        file = repo.files[name]
        about = self._known(file)
        lfs = about.get("lfs")
        etag = lfs["sha256"] if isinstance(lfs, dict) else about["blobId"]
        headers = {"X-Repo-Commit": repo.commit, "ETag": f'"{etag}"'}
        if lfs and self.hub.elsewhere:
            headers |= {"X-Linked-ETag": f'"{etag}"', "X-Linked-Size": str(about["size"])}
            headers["Location"] = f"{self.hub.elsewhere}/cdn/{name}"
            return self._answer(302, b"", headers)
        return self._send(name, file, headers)

    def _send(self, name: str, file: bytes | Path, headers: dict[str, str] | None = None) -> None:
        size = len(file) if isinstance(file, bytes) else os.path.getsize(file)
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        begin = int(asked[1]) if asked else 0
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {begin}-{size - 1}/{size}")
        for key, value in {"ETag": f'"{size}"', **(headers or {})}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(size - begin))
        self.end_headers()
        if self.command == "HEAD":
            return
        wrong = self.hub.wrong[name] > 0
        self.hub.wrong[name] -= wrong
        end, began = self.hub.cut.pop(name, size), time.monotonic()
        for at in range(begin, end, 1 << 20):
            data = _part(file, at, min(1 << 20, end - at))
            self.wfile.write(bytes(len(data)) if wrong else data)
            self.hub.sent[name] += len(data)
            if self.hub.rate:
                due = began + (at + len(data) - begin) / self.hub.rate
                time.sleep(max(0.0, due - time.monotonic()))
        if end < size:
            self.close_connection = True

    def _refuse(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        self._answer(status, b"no", {"X-Error-Code": code, **(headers or {})})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _part(file: bytes | Path, at: int, size: int) -> bytes:
    if isinstance(file, bytes):
        return file[at : at + size]
    with file.open("rb") as opened:
        opened.seek(at)
        return opened.read(size)
