"""A redirect whose own body has no end: it is not read."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from ipexctl.common.http_body import BodyBroken
from ipexctl.packages.download import Download
from ipexctl.packages.http_opener import Opener
from ipexctl.packages.indexes import Indexes
from ipexctl.remote.failure import Failure
from ipexctl.remote.play import apply_get

ENOUGH = 64 << 20  # bytes; all of it would be in memory


class Endless:
    """A server that sends the same to whoever asks. `sent`: bytes that one of them took."""

    def __init__(self) -> None:
        self.sent = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/x"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(link,), daemon=True).start()

    def _talk(self, link: socket.socket) -> None:
        head = f"HTTP/1.1 302 Found\r\nLocation: {self.url}\r\n\r\n"
        piece, sent = bytes(1 << 20), 0
        try:
            link.recv(1 << 16)
            link.sendall(head.encode())
            while sent < ENOUGH:
                link.sendall(piece)
                sent += len(piece)
                self.sent = max(sent, self.sent)
        except OSError:
            pass
        finally:
            link.close()


@pytest.fixture
def server() -> Iterator[Endless]:
    made = Endless()
    yield made
    made.listener.close()


def _index(url: str) -> None:
    with pytest.raises(BodyBroken):
        download = Download(Opener(Indexes(), {}).open, timeout=5.0, wait=lambda s: None)
        download.append_to(io.BytesIO(), url, lambda n: None, 1000)


def _get(url: str) -> None:
    args = {
        "url": url, "dest": "/tmp/ipexctl-none", "sha256": "0" * 64, "mode": "", "owner": "",
        "group": "", "size": 1 << 20, "timeout": 5, "deadline": 60,
    }  # fmt: skip
    with pytest.raises(Failure):
        apply_get._download(args, io.BytesIO())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fetch", [_index, _get])
def test_the_body_of_a_redirect_is_not_read(server: Endless, fetch: Callable[[str], None]) -> None:
    fetch(server.url)
    assert server.sent < ENOUGH
