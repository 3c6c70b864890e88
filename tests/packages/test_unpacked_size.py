"""How large wheels will be unpacked, known once they are here."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from ipexctl.blobs.blob_store import Room, Store
from ipexctl.install.lock_wheels import room_unpacked
from ipexctl.install.stack.lock_file import Lock, Package
from tests.install.conftest import make_wheel


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


def test_it_is_known_of_what_is_here_or_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    make_wheel(folder, "large", "1", {f"large/{i:04}.py": b"x" * 1000 for i in range(300)})
    make_wheel(folder, "small", "1", {"small.py": b"y" * 50})
    files, store = packages(folder), Store(tmp_path / "store")
    urls = {p.sha256: (folder / p.file).as_uri() for p in files}
    real = room_of(folder)
    assert room_unpacked(lock(files), urls, store) == real
    assert real.bytes > 300_000
    elsewhere = {p.sha256: f"https://index.invalid/{p.file}" for p in files}
    assert room_unpacked(lock(files), elsewhere, store) is None
    for file in files:
        store.add(file.file, [(folder / file.file).read_bytes()])
    assert room_unpacked(lock(files), elsewhere, store) == real
