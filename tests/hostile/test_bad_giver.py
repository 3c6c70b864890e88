"""A host that gives files to others and means no good."""

from __future__ import annotations

import email.message
import http.server
import re
import threading
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ipexctl.blobs.tls_keys import make_keys
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
    server.socket = peer_tls.context(KEYS, True).wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://{HERE}:{server.server_port}"
    server.shutdown()
    server.server_close()


def fetch_from(url: str, root: Path, files: list[list[object]] | None = None) -> Failure:
    files = files or [["a.whl", "a" * 64, 5 << 20, url]]
    asked = {"root": str(root), "keys": KEYS, "files": files}
    with pytest.raises(Failure) as told:
        blob_download.op_fetch(Asked(), asked)
    return told.value


def test_a_giver_that_drips_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def drip(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(5 << 20))
        request.end_headers()
        while True:
            request.wfile.write(b"x")
            time.sleep(0.1)

    monkeypatch.setattr(blob_download, "TIMEOUT_DIRECT", 0.5)
    with giving(drip) as url:
        began = time.monotonic()
        assert re.match(r"\d+ bytes in 0 s", fetch_from(url, tmp_path / "root").why)
        assert time.monotonic() - began < 5


def test_of_several_downloads_the_one_that_failed_is_named(tmp_path: Path) -> None:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        if request.path == "/b":
            time.sleep(0.5)
            return request.send_error(404)
        request.send_response(200)
        request.send_header("Content-Length", str(5 << 20))
        request.end_headers()
        while True:
            request.wfile.write(bytes(20000))
            time.sleep(0.1)

    with giving(answer) as url:
        files = [[n, n * 64, 5 << 20, f"{url}/{n}"] for n in "ab"]
        assert "HTTP 404" in fetch_from(url, tmp_path / "root", files).why


def test_a_redirect_of_a_giver_is_refused(tmp_path: Path) -> None:
    seen = []

    def send_on(request: http.server.BaseHTTPRequestHandler) -> None:
        seen.append(request.path)
        request.send_response(302)
        request.send_header("Location", "/internal/delete?all=1")
        request.end_headers()

    with giving(send_on) as url:
        assert "HTTP 302" in fetch_from(f"{url}/a", tmp_path / "root").why
    assert seen == ["/a"]


@pytest.mark.parametrize(("said", "pause"), [("7", 7.0), ("\xb2", None), ("9" * 5000, None)])
def test_a_time_to_wait_that_is_none_is_passed_over(said: str, pause: float | None) -> None:
    headers = email.message.Message()
    headers["Retry-After"] = said
    error = urllib.error.HTTPError("http://x", 503, "busy", headers, None)
    assert blob_download.retry_after(error) == download._pause(error) == pause
