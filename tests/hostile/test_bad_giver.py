"""A host that gives files to others and means no good."""

from __future__ import annotations

import email.message
import hashlib
import http.server
import os
import re
import threading
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ipexctl.blobs.tls_keys import make_keys
from ipexctl.common.blob_answers import BlobsFetched
from ipexctl.packages import download
from ipexctl.remote.blobs import blob_download
from ipexctl.remote.connection import peer_tls
from ipexctl.remote.failure import Failure

HERE = "127.0.0.1"
KEYS = make_keys()


class Asked:
    """A call of an agent."""

    def emit(self, *_: object) -> None: ...


@contextmanager
def giving(answer: Callable[[http.server.BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):
                answer(self)

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer((HERE, 0), Handler)
    server.socket = peer_tls.make_tls_context(KEYS, True).wrap_socket(
        server.socket, server_side=True
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://{HERE}:{server.server_port}"
    server.shutdown()
    server.server_close()


def fetch_from(url: str, root: Path, files: list[list[object]] | None = None) -> Failure:
    files = files or [["a.whl", "a" * 64, 5 << 20]]
    asked = {"root": str(root), "keys": KEYS, "giver": url, "files": files}
    with pytest.raises(Failure) as told:
        blob_download.op_fetch(Asked(), **asked)
    return told.value


def test_a_giver_that_drips_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def drip(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(5 << 20))
        request.end_headers()
        while True:
            request.wfile.write(b"x")
            time.sleep(0.1)

    monkeypatch.setattr(blob_download, "TIMEOUT", 0.5)
    with giving(drip) as url:
        began = time.monotonic()
        why = fetch_from(url, tmp_path / "root").why
        assert re.match(r"less than 50 kB/s for 0.5 s; ", why)
        assert time.monotonic() - began < 5


def test_a_redirect_of_a_giver_is_refused(tmp_path: Path) -> None:
    seen = []

    def send_on(request: http.server.BaseHTTPRequestHandler) -> None:
        seen.append(request.path)
        request.send_response(302)
        request.send_header("Location", "/internal/delete?all=1")
        request.end_headers()

    with giving(send_on) as url:
        assert "HTTP 302" in fetch_from(url, tmp_path / "root").why
    assert seen == [f"/{'a' * 64}"]


def test_a_host_refuses_a_name_that_is_not_a_hash(tmp_path: Path) -> None:
    files: list[list[object]] = [["a.whl", "../../a", 1]]
    assert fetch_from("https://127.0.0.1:1", tmp_path / "root", files).slug == "invalid-request"


CONTENT, CUT = os.urandom(5 << 20), 1 << 20
SHA = hashlib.sha256(CONTENT).hexdigest()
# what an earlier try had left -> the requests, and the bytes that came
LEFT = [
    (b"", [""], len(CONTENT)),
    (CONTENT[:CUT], [f"bytes={CUT}-"], len(CONTENT) - CUT),
    (CONTENT, [], 0),
]


@pytest.mark.parametrize(("left", "requests", "came"), LEFT, ids=["none", "part", "all"])
def test_what_an_earlier_try_left_is_not_fetched_again_if_it_is_right(
    tmp_path: Path, left: bytes, requests: list[str], came: int
) -> None:
    seen: list[str] = []

    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        seen.append(request.headers.get("Range", ""))
        begin = int(seen[-1][6:-1] or 0)
        request.send_response(206 if begin else 200)
        request.send_header("Content-Length", str(len(CONTENT) - begin))
        request.end_headers()
        request.wfile.write(CONTENT[begin:])

    root, files = tmp_path / "root", [["a.whl", SHA, len(CONTENT)]]
    parts = root / "blobs" / "parts"
    parts.mkdir(parents=True)
    root.chmod(0o700)
    with giving(answer) as url:
        (parts / f"{SHA}.part").write_bytes(b"?" * CUT)
        assert fetch_from(url, root, files).slug == "damaged"
        assert list(parts.iterdir()) == []
        seen.clear()
        (parts / f"{SHA}.part").write_bytes(left)
        asked = {"root": str(root), "keys": KEYS, "giver": url, "files": files}
        assert blob_download.op_fetch(Asked(), **asked) == BlobsFetched(came)
        assert blob_download.op_fetch(Asked(), **asked) == BlobsFetched(0)
    assert (root / "blobs" / "sha256" / SHA[:2] / SHA).read_bytes() == CONTENT
    assert seen == requests


@pytest.mark.parametrize(("said", "pause"), [("7", 7.0), ("\xb2", None), ("9" * 5000, None)])
def test_a_time_to_wait_that_is_none_is_passed_over(said: str, pause: float | None) -> None:
    headers = email.message.Message()
    headers["Retry-After"] = said
    error = urllib.error.HTTPError("http://x", 503, "busy", headers, None)
    assert download._retry_after(error) == pause
