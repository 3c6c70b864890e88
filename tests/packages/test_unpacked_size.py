"""How large wheels will be unpacked, known before they are fetched."""

from __future__ import annotations

import hashlib
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.blobs.blob_store import Room, Store
from ipexctl.install.stack.lock_file import Lock, Package
from ipexctl.packages.unpacked_size import room_unpacked
from tests.install.conftest import make_wheel
from tests.packages.served import Fault, Served, served

MANY = {f"large/{i:04}.py": b"x" * 1000 for i in range(3000)}  # a table beyond the first read


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    folder = tmp_path / "served"
    folder.mkdir()
    make_wheel(folder, "large", "1", MANY)
    make_wheel(folder, "small", "1", {"small.py": b"y" * 50})
    with served(folder) as told:
        yield told


def packages(folder: Path) -> list[Package]:
    return [
        Package(p.name.split("-")[0], "1", p.name, _sha(p), p.stat().st_size)
        for p in sorted(folder.glob("*.whl"))
    ]


def lock(files: list[Package]) -> Lock:
    return Lock("row", "2.13.0", "none", "3.11", "platform", tuple(files), files[0])


def room_of(folder: Path) -> Room:
    members = [m for path in folder.glob("*.whl") for m in zipfile.ZipFile(path).infolist()]
    return Room(sum(m.file_size for m in members), len(members))


def _sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def told(server: Served, store: Store, *, size: bool = True) -> Room | None:
    files = packages(server.folder)
    urls = {p.sha256: f"{server.url}/files/{p.file}" for p in files}
    known = files if size else [Package(p.name, "1", p.file, p.sha256) for p in files]
    return room_unpacked(lock(known), urls, store, urllib.request.urlopen)


def test_the_tables_of_contents_are_enough(server: Served, tmp_path: Path) -> None:
    real = room_of(server.folder)
    assert told(server, Store(tmp_path / "store")) == real
    assert real.bytes > 3_000_000
    assert all(asked.startswith("bytes=") for path, asked in server.seen if path.endswith(".whl"))
    sizes = {p.file: p.size for p in packages(server.folder)}
    asked = [tuple(map(int, a.removeprefix("bytes=").split("-"))) for _, a in server.seen]
    assert sum(last - first + 1 for first, last in asked) < 2 * sum(sizes.values())


def test_what_is_here_or_in_a_folder_is_not_asked_for(server: Served, tmp_path: Path) -> None:
    files = packages(server.folder)
    urls = {p.sha256: (server.folder / p.file).as_uri() for p in files}
    room = room_unpacked(lock(files), urls, Store(tmp_path / "store"))
    assert room == room_of(server.folder)
    store = Store(tmp_path / "kept")
    for file in files:
        store.add(file.file, [(server.folder / file.file).read_bytes()])
    assert (room_unpacked(lock(files), {}, store), server.seen) == (room, [])


def test_an_index_that_does_not_tell_leaves_it_unknown(server: Served, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    assert told(server, store, size=False) is None
    server.faults["small-1-py3-none-any.whl"] = Fault("status", 503)
    assert told(server, store) is None
    server.faults["small-1-py3-none-any.whl"] = Fault("other", times=99)
    assert told(server, store) is None
    server.ranges = False
    assert told(server, store) is None
