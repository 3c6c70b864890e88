"""`get` from servers that want to keep it, to fill the disk, or to learn what the host has."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.file_steps import Get
from ipexctl.remote.failure import Failure, failure_document
from ipexctl.remote.play import apply_get
from ipexctl.remote.play.task import Task

MOST_BYTES = 1 << 20
OK = b"HTTP/1.1 200 OK\r\n"
Serve = Callable[[bytes, bytes, float], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A server that sends a beginning, then the same piece again and again, with a pause after
    each."""
    listeners: list[socket.socket] = []

    def talk(listener: socket.socket, head: bytes, piece: bytes, pause: float) -> None:
        with contextlib.suppress(OSError), listener.accept()[0] as link:
            link.recv(1 << 16)
            link.sendall(head)
            while True:
                link.sendall(piece)
                time.sleep(pause)

    def start(head: bytes, piece: bytes, pause: float) -> str:
        listeners.append(socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=talk, args=(listeners[-1], head, piece, pause), daemon=True).start()
        return f"http://127.0.0.1:{listeners[-1].getsockname()[1]}/x"

    yield start
    for listener in listeners:
        listener.close()


def _get(url: str, dest: Path, **more: float) -> None:
    args = {
        "url": url, "dest": str(dest), "sha256": "0" * 64, "mode": "", "owner": "", "group": "",
        "size": MOST_BYTES, "timeout": 1, "deadline": 60, **more,
    }  # fmt: skip
    apply_get.apply(Task(args, False, False, lambda event: None, lambda: None, []))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("head", "piece", "pause", "limits", "why"),
    [
        pytest.param(OK + b"\r\n", b"x", 0.1, {}, "less than 10 kB/s", id="a slow body"),
        pytest.param(
            OK + b"\r\n", b"x" * 2000, 0.05, {"deadline": 1.5}, "not complete after 1.5 s",
            id="a body that is fast enough, and has no end",
        ),
        pytest.param(OK + b"\r\n", b"x" * 65536, 0, {}, "larger than", id="no end at all"),
        pytest.param(
            OK + b"Content-Length: 99999999\r\n\r\n", b"x", 0.01, {}, "larger than",
            id="a size in the header",
        ),
    ],
)  # fmt: skip
def test_a_server_cannot_keep_a_host(
    serve: Serve, tmp_path: Path, head: bytes, piece: bytes, pause: float,
    limits: dict[str, float], why: str,
) -> None:  # fmt: skip
    with pytest.raises(Failure) as failed:
        _get(serve(head, piece, pause), tmp_path / "x", **limits)
    assert why in failed.value.why
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_the_host_is_no_download() -> None:
    with pytest.raises(Bad):
        Get("file:///etc/shadow", "/x", "0" * 64).check()


def test_a_redirect_to_a_file_of_the_host_is_not_followed(serve: Serve, tmp_path: Path) -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: file:///etc/hostname\r\nContent-Length: 0\r\n\r\n"
    with pytest.raises(Failure) as failed:
        _get(serve(answer, b"", 1), tmp_path / "x")
    assert "SHA-256" not in str(failure_document(failed.value))
