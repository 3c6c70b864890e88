"""Fetching from a real HTTP server: counted, resumed, checked, once."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ipexctl.core.lock import Package
from ipexctl.hosts.fetch import Fetcher, FetchFailed
from ipexctl.hosts.indexes import Indexes
from ipexctl.hosts.store import Store

CONTENT = bytes(range(256)) * 5000
FILE = Package("a", "1", "a-1-py3-none-any.whl", hashlib.sha256(CONTENT).hexdigest())


@dataclass
class Server:
    """Serves CONTENT. `cut` breaks the first answer off after so many bytes."""

    url: str = ""
    content: bytes = CONTENT
    cut: int = 0
    ranges: bool = True
    seen: list[tuple[str, str]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    told = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range", "")
            told.seen.append((asked, self.headers.get("Authorization", "")))
            start = int(asked[6:-1]) if asked and told.ranges else 0
            body = told.content[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            cut, told.cut = told.cut, 0
            self.wfile.write(body[:cut] if cut else body)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.url = f"http://127.0.0.1:{http.server_port}/{FILE.file}"
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield told
    http.shutdown()
    http.server_close()


def fetch(server: Server, folder: Path, indexes: Indexes | None = None) -> tuple[Store, int]:
    fetcher = Fetcher(Store(folder), indexes or Indexes())
    fetcher.fetch([FILE], {FILE.sha256: server.url}, lambda n: None)
    return fetcher.store, fetcher.fetched


def test_a_file_is_fetched_once_and_counted(server: Server, tmp_path: Path) -> None:
    store, fetched = fetch(server, tmp_path)
    assert store.path(FILE.blob).read_bytes() == CONTENT
    assert fetched == len(CONTENT)
    assert fetch(server, tmp_path)[1] == 0
    assert server.seen == [("", "")]


def test_an_answer_that_breaks_off_is_continued_where_it_stopped(
    server: Server, tmp_path: Path
) -> None:
    server.cut = 1000
    store, fetched = fetch(server, tmp_path)
    assert store.path(FILE.blob).read_bytes() == CONTENT
    assert fetched == len(CONTENT)
    assert [asked for asked, _ in server.seen] == ["", "bytes=1000-"]


def test_a_server_that_cannot_continue_starts_anew(server: Server, tmp_path: Path) -> None:
    server.cut, server.ranges = 1000, False
    store, fetched = fetch(server, tmp_path)
    assert store.path(FILE.blob).read_bytes() == CONTENT
    assert fetched == len(CONTENT) + 1000


def test_other_bytes_are_thrown_away(server: Server, tmp_path: Path) -> None:
    server.content = CONTENT[:-1] + b"!"
    with pytest.raises(FetchFailed, match="is not the file that was locked"):
        fetch(server, tmp_path)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_what_an_index_address_says_about_the_user_goes_to_its_files_and_nowhere_else(
    server: Server, tmp_path: Path
) -> None:
    fetch(server, tmp_path / "a", Indexes("http://me:p%40ss@127.0.0.1/simple"))
    fetch(server, tmp_path / "b", Indexes("http://me:secret@other.invalid/simple"))
    assert [authorization for _, authorization in server.seen] == ["Basic bWU6cEBzcw==", ""]
