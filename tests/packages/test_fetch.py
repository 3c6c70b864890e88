"""Fetching from a real HTTP server: counted, resumed, checked, once."""

from __future__ import annotations

import hashlib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.blobs.blob_store import Store
from ipexctl.common.http_body import BodyBroken, TooLarge
from ipexctl.packages.download import Download
from ipexctl.packages.file_fetch import PART, FetchFailed
from ipexctl.packages.indexes import Indexes
from ipexctl.packages.wheel_fetch import Fetcher
from ipexctl.stack.lock_file import LockedPackage
from tests.packages.served import Fault, Served, served
from tests.refused import refused

CONTENT = bytes(range(256)) * 5000
FILE = LockedPackage("a", "1", "a-1-py3-none-any.whl", hashlib.sha256(CONTENT).hexdigest())


def quiet(done: int, total: int) -> None:
    """Nothing is told on the way."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / FILE.file).write_bytes(CONTENT)
    with served(folder) as told:
        yield told


def fetch(server: Served, folder: Path) -> tuple[Store, Fetcher]:
    fetcher = Fetcher(Store(folder / "store"), Indexes())
    fetcher.fetch([FILE], {FILE.sha256: f"{server.url}/files/{FILE.file}"}, quiet)
    return fetcher.store, fetcher


def test_a_file_is_fetched_once_and_counted(server: Served, tmp_path: Path) -> None:
    store, fetcher = fetch(server, tmp_path)
    assert store.path(FILE.blob).read_bytes() == CONTENT
    assert fetcher.fetched == len(CONTENT)
    assert fetch(server, tmp_path)[1].fetched == 0
    assert server.asked(FILE.file) == [""]


def test_a_file_of_a_folder_counts_as_done_and_not_as_fetched(tmp_path: Path) -> None:
    (tmp_path / FILE.file).write_bytes(CONTENT)
    fetcher, told = Fetcher(Store(tmp_path / "store"), Indexes()), [0]
    url = (tmp_path / FILE.file).as_uri()
    fetcher.fetch([FILE], {FILE.sha256: url}, lambda done, total: told.append(done))
    assert (fetcher.fetched, told[-1]) == (0, len(CONTENT))
    assert fetcher.store.whole(FILE.blob)


# what goes wrong, whether the server can go on from the middle -> the requests, extra bytes
HEALED = [
    (Fault("cut", 1000), True, ["", "bytes=1000-"], 0),
    (Fault("reset", 1000), True, ["", "bytes=1000-"], 0),
    (Fault("cut", 1000), False, ["", "bytes=1000-"], 1000),
    (Fault("status", 503), True, ["", ""], 0),
]


@pytest.mark.parametrize(("fault", "ranges", "requests", "more"), HEALED)
def test_what_breaks_off_goes_on_where_it_stopped_if_the_server_can(
    server: Served, tmp_path: Path, fault: Fault, ranges: bool, requests: list[str], more: int
) -> None:
    server.faults[FILE.file], server.ranges = fault, ranges
    store, fetcher = fetch(server, tmp_path)
    assert store.path(FILE.blob).read_bytes() == CONTENT
    assert fetcher.fetched == len(CONTENT) + more
    assert server.asked(FILE.file) == requests


def test_a_rerun_goes_on_where_a_server_that_gave_up_had_stopped(
    server: Served, tmp_path: Path
) -> None:
    server.faults[FILE.file] = Fault("cut", 1000)
    server.then[FILE.file] = Fault("status", 404)
    with pytest.raises(FetchFailed) as told:
        fetch(server, tmp_path)
    assert (told.value.what, told.value.why, told.value.hint) == (
        f"127.0.0.1 did not send {FILE.file}",
        "HTTP 404 Not Found; 0.0 MB of it are kept",
        "rm -f ipexctl.lock   # the next install resolves the versions again",
    )
    _, again = fetch(server, tmp_path)
    assert again.fetched == len(CONTENT) - 1000


def test_other_bytes_are_thrown_away(server: Served, tmp_path: Path) -> None:
    server.faults[FILE.file] = Fault("other", times=2)
    with refused("fetch-damaged", FILE.file):
        fetch(server, tmp_path)
    assert [p for p in (tmp_path / "store").rglob("*") if p.is_file()] == []


def test_what_was_left_of_another_file_is_thrown_away_and_the_file_fetched_from_its_start(
    server: Served, tmp_path: Path
) -> None:
    part = Path(f"{Store(tmp_path / 'store').path(FILE.blob)}{PART}")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"?" * 1000)
    store, _ = fetch(server, tmp_path)
    assert store.path(FILE.blob).read_bytes() == CONTENT
    assert server.asked(FILE.file) == ["bytes=1000-", ""]


def test_a_store_that_cannot_be_written_is_called_that_and_not_the_servers_fault(
    server: Served, tmp_path: Path
) -> None:
    (tmp_path / "store").write_text("in the way")
    with refused("cannot-save"):
        fetch(server, tmp_path)


# the fault of every answer -> the words, and how long was waited between the tries
GIVEN_UP = [
    (Fault("silent"), "the server stalls: no answer for 0 s", [1.0, 2.0]),
    (Fault("status", 503, 9), "HTTP 503 Service Unavailable", [1.0, 2.0]),
    (Fault("status", 403, 9), "HTTP 403 Forbidden", []),
]


@pytest.mark.parametrize(("fault", "words", "pauses"), GIVEN_UP)
def test_a_server_that_gives_nothing_is_given_up(
    server: Served, tmp_path: Path, fault: Fault, words: str, pauses: list[float]
) -> None:
    server.faults[FILE.file] = Fault(fault.kind, fault.number, 9)
    waited: list[float] = []
    opener = urllib.request.build_opener()
    download = Download(opener.open, timeout=0.1, wait=waited.append)
    with (tmp_path / "out").open("a+b") as out, pytest.raises(BodyBroken) as told:
        download.append_to(out, f"{server.url}/files/{FILE.file}", lambda n: None)
    assert (str(told.value), waited) == (words, pauses)


@pytest.mark.parametrize("resumed", [0, 5])
def test_a_server_that_sends_more_than_was_locked_is_not_listened_to(
    server: Served, tmp_path: Path, resumed: int
) -> None:
    waited: list[float] = []
    download = Download(urllib.request.build_opener().open, wait=waited.append)
    with (tmp_path / "out").open("a+b") as out:
        out.write(CONTENT[:resumed])
        with pytest.raises(TooLarge, match=" 100 bytes "):
            download.append_to(out, f"{server.url}/files/{FILE.file}", lambda n: None, 100)
        assert (out.seek(0, 2), waited) == (0, [])
