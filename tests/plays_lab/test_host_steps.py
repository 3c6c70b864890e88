"""Steps of hosts by their real programs: what a host has, what it serves, what it lacks."""

from __future__ import annotations

import hashlib
import http.server
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from ipexctl.remote.failure import Failure
from ipexctl.remote.play import apply_get, apply_service, apply_wait
from ipexctl.remote.play.task import Task
from tests.refused import refused

CONTENT = b"model\n" * 100_000
DIGEST = hashlib.sha256(CONTENT).hexdigest()
GET = {"mode": "", "owner": "", "group": "", "timeout": 5, "size": 10**9, "deadline": 60}


def task(check: bool = False, **args: object) -> Task:
    return Task(args, check, False, lambda event: None, lambda: None, [])


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/gone":
            self.send_error(404, "Not Found")
        elif self.path == "/to-file":
            self.send_response(302)
            self.send_header("Location", "file:///etc/hostname")
            self.end_headers()
        elif self.path == "/to-model":
            self.send_response(302)
            self.send_header("Location", "/model")
            self.end_headers()
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT[: len(CONTENT) // 2] if self.path == "/cut" else CONTENT)

    def log_message(self, *words: object) -> None:
        return None


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.parametrize("path", ["/model", "/to-model"])
def test_a_download_is_made_once(site, tmp_path, path):
    args = {**GET, "url": site + path, "dest": str(tmp_path / "m"), "sha256": DIGEST, "mode": "600"}
    assert apply_get.apply(task(check=True, **args))[0] is True
    assert not (tmp_path / "m").exists()
    assert apply_get.apply(task(**args))[0] is True
    assert (tmp_path / "m").read_bytes() == CONTENT
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o600
    assert apply_get.apply(task(**args))[0] is False


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/gone", "the server says 404 Not Found"),
        ("/cut", "not have the expected content|cannot download"),
        ("/to-file", "file:///etc/hostname.*(is not allowed|not followed)"),
        ("/other", "not have the expected content"),
    ],
)
def test_a_download_that_went_wrong_keeps_the_old_file(site, tmp_path, path, words):
    (tmp_path / "m").write_text("old")
    digest = "0" * 64 if path == "/other" else DIGEST
    args = {**GET, "url": site + path, "dest": str(tmp_path / "m"), "sha256": digest}
    with pytest.raises(Failure, match=words):
        apply_get.apply(task(**args))
    assert (tmp_path / "m").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


WAIT = {"port": None, "host": "127.0.0.1", "path": "", "seconds": 0, "timeout": 2}


def test_wait_for_a_port_and_a_path(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert apply_wait.apply(task(**{**WAIT, "port": port, "state": "started"}))[0] is False
        with refused("wait-timeout", "0.5 s"):
            apply_wait.apply(task(**{**WAIT, "port": port, "state": "stopped", "timeout": 0.5}))
    path = tmp_path / "flag"
    args = {**WAIT, "path": str(path), "state": "present", "timeout": 20}
    assert apply_wait.apply(task(check=True, **args))[0] is None
    threading.Timer(0.3, path.touch).start()
    assert apply_wait.apply(task(**args))[0] is False


def test_a_service_where_there_is_no_systemd_is_refused():
    if os.path.isdir("/run/systemd/system"):
        pytest.skip("systemd runs on this machine")
    args = {"name": "chronyd", "state": "started", "enabled": None, "daemon_reload": False}
    with refused("systemd-missing", "chronyd"):
        apply_service.apply(task(**args))
