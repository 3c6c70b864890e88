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
from ipexctl.packages import uv
from ipexctl.packages.file_fetch import FetchFailed
from ipexctl.packages.indexes import Indexes
from ipexctl.packages.resolver import locate_files, resolve_stack
from ipexctl.packages.wheel_fetch import Fetcher
from ipexctl.stack.lock_file import Lock, LockedPackage
from ipexctl.stack.requirements import Extra
from tests.packages.test_logins import STACK, for_uv

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100000\r\n\r\n<html>"
FILES = [
    LockedPackage(name, "1", f"{name}-1-py3-none-any.whl", str(i) * 64, 1)
    for i, name in enumerate(("numpy", "uv"))
]
STOCK = replace(STACK, row=replace(STACK.row, links="", ipex="", flat=()))


@contextmanager
def stalling(point: str) -> Iterator[str]:
    """The address of an index that stalls before its headers, in the body, or sends drops."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        over = threading.Event()
        stack.callback(over.set)

        def serve(link: socket.socket) -> None:
            with link, suppress(OSError):  # the other end hung up
                link.recv(1 << 16)
                if point == "headers":
                    over.wait()
                link.sendall(HEAD)
                while not over.wait(0.3):
                    if point == "trickle":
                        link.sendall(b" ")

        def accept() -> None:
            while not over.is_set():
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(link,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/simple"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """For trickles, which uv itself waits for."""
    monkeypatch.setattr(uv, "TIMEOUT", 3.0)


def environ_of(tmp_path: Path) -> dict[str, str]:
    return {**for_uv(tmp_path), "UV_HTTP_TIMEOUT": "1"}


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("point", ["headers", "body", "trickle"])
def test_an_index_that_stalls_is_named(tmp_path: Path, point: str) -> None:
    with stalling(point) as url:
        began = time.monotonic()
        with pytest.raises(InputError) as told:
            resolve_stack([STOCK], Indexes(url), environ_of(tmp_path), Extra(("numpy",)))
        assert time.monotonic() - began < 8.0
        assert url.removesuffix("/simple") in told.value.why
    assert told.value.slug == "index-no-answer"


@pytest.mark.usefixtures("soon")
def test_for_a_lock_it_is_named_too(tmp_path: Path) -> None:
    row = STOCK.row
    lock = Lock(row.name, row.torch, "", "3.12", STACK.platform, (FILES[0],), FILES[1])
    with stalling("headers") as url:
        began = time.monotonic()
        with pytest.raises(InputError) as told:
            locate_files(STOCK, lock, Indexes(url), environ_of(tmp_path))
        assert time.monotonic() - began < 15.0
        assert url.removesuffix("/simple") in told.value.why


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ("body", "no more data for 1 s"),
        ("trickle", "less than 1 kB/s for 1 s"),
    ],
)
def test_a_file_that_stalls_is_given_up(tmp_path: Path, point: str, words: str) -> None:
    began = time.monotonic()
    with stalling(point) as url, pytest.raises(FetchFailed) as told:
        fetcher = Fetcher(Store(tmp_path), Indexes(), environ_of(tmp_path))
        file = replace(FILES[0], size=100_000)
        fetcher.fetch([file], {file.sha256: url}, lambda done, total: None)
    assert time.monotonic() - began < 10.0
    assert words in told.value.why
