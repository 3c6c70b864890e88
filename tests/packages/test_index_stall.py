"""An index that takes a connection and then sends nothing, or next to nothing: named, and soon."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.blobs.blob_store import Store
from ipexctl.errors import InputError
from ipexctl.install.stack.lock_file import Lock, Package
from ipexctl.install.stack.requirements import Extra
from ipexctl.packages import download, index_stall
from ipexctl.packages.indexes import Indexes
from ipexctl.packages.resolver import locate, resolve
from ipexctl.packages.wheel_fetch import Fetcher, FetchFailed
from tests.packages.test_logins import STACK, for_uv

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100000\r\n\r\n<html>"
POINTS = ("connect", "tls", "headers", "slow-headers", "body", "trickle", "file")
FILES = [
    Package(name, "1", f"{name}-1-py3-none-any.whl", str(i) * 64, 1, index="default")
    for i, name in enumerate(("numpy", "uv"))
]


@contextmanager
def stalling(point: str) -> Iterator[str]:
    """The address of an index that stalls at that point."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = listener.getsockname()[1]
        over = threading.Event()
        stack.callback(over.set)

        def serve(link: socket.socket) -> None:
            with link, suppress(OSError):  # the other end hung up
                asked = link.recv(1 << 16)
                if point in ("tls", "headers") or (point == "file" and b".whl" in asked):
                    over.wait()
                elif point == "file":
                    name = b"torch-%s+cpu-py3-none-any.whl" % STACK.row.torch.encode()
                    page = b'<a href="/%s">%s</a>' % (name, name)
                    link.sendall(
                        HEAD.replace(b"100000", b"%d" % len(page)).removesuffix(b"<html>") + page
                    )
                    over.wait()
                link.sendall(b"HTTP/1.1 200 OK\r\nX-A: " if point == "slow-headers" else HEAD)
                while not over.wait(0.3):
                    if point != "body":
                        link.sendall(b" ")

        def accept() -> None:
            while not over.is_set():
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(link,), daemon=True).start()

        if point == "connect":  # what the kernel keeps for a server that does not accept
            for _ in range(3):
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(("127.0.0.1", port))
        else:
            threading.Thread(target=accept, daemon=True).start()
        yield f"{'https' if point == 'tls' else 'http'}://127.0.0.1:{port}/simple"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_stall, "SLOW", 1.0)
    monkeypatch.setattr(index_stall, "PATIENCE", 2.0)


def environ_of(tmp_path: Path) -> dict[str, str]:
    kept = for_uv(tmp_path)
    del kept["UV_HTTP_RETRIES"]
    return kept


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("point", ["connect", "trickle", "file"])  # soak: all of them
def test_an_index_that_stalls_is_named(tmp_path: Path, point: str) -> None:
    row = replace(STACK.row, links="", ipex="", flat=())
    with stalling(point) as url:
        began = time.monotonic()
        with pytest.raises(InputError) as told:
            resolve(
                [replace(STACK, row=row)], Indexes(url), environ_of(tmp_path), Extra(("numpy",))
            )
        assert time.monotonic() - began < 8.0
        assert url.removesuffix("/simple") in told.value.why
    assert (told.value.slug, "stalls" in told.value.why) == ("index-no-answer", True)


@pytest.mark.usefixtures("soon")
def test_the_users_timeout_is_longer(tmp_path: Path) -> None:
    row = replace(STACK.row, links="", ipex="", flat=())
    environ = {**environ_of(tmp_path), "UV_HTTP_TIMEOUT": "5", "UV_HTTP_RETRIES": "9"}
    with stalling("trickle") as url, pytest.raises(InputError) as told:
        resolve([replace(STACK, row=row)], Indexes(url), environ)
    assert "in 5 s" in told.value.why


@pytest.mark.usefixtures("soon")
def test_for_a_lock_it_is_named_once(tmp_path: Path) -> None:
    row = replace(STACK.row, links="", ipex="", flat=())
    lock = Lock(row.name, row.torch, "", "3.12", STACK.platform, (FILES[0],), FILES[1])
    with stalling("headers") as url:
        began = time.monotonic()
        with pytest.raises(InputError) as told:
            locate(replace(STACK, row=row), lock, Indexes(url), environ_of(tmp_path))
        assert time.monotonic() - began < 8.0
    assert told.value.why.count("stalls") == 1


@pytest.mark.parametrize("point", ["headers", "body", "trickle"])
def test_a_file_that_stalls_is_given_up(
    tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "FIRST", 1.0)
    began = time.monotonic()
    with stalling(point) as url, pytest.raises(FetchFailed) as told:
        Fetcher(Store(tmp_path), Indexes(), for_uv(tmp_path)).add("a.whl", url)
    assert time.monotonic() - began < 6.0
    assert "stalls" in told.value.why


@pytest.mark.soak
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("_again", range(5))
def test_it_is_named_in_30_seconds(tmp_path: Path, point: str, _again: int) -> None:
    row = replace(STACK.row, links="", ipex="", flat=())
    with stalling(point) as url:
        began = time.monotonic()
        with pytest.raises(InputError) as told:
            resolve([replace(STACK, row=row)], Indexes(url), environ_of(tmp_path))
        assert time.monotonic() - began < 30.0
    assert "stalls" in told.value.why


@pytest.mark.parametrize("piece", ["<a ", "<a a", "<a href", "<a href='", " "])
def test_a_page_is_searched_in_linear_time(piece: str) -> None:
    """No signal ends the search: for its time, Ctrl-C would do nothing."""
    page = (piece.encode() * index_stall.ENOUGH)[: index_stall.ENOUGH]
    began = time.monotonic()
    index_stall._LINK.search(page)
    assert time.monotonic() - began < 5.0
