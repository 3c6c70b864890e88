"""A new version of a large file: what of it travels, and what a host makes of it."""

from __future__ import annotations

import hashlib
import io
import os
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ipexctl.base.host_outcome import Recap
from ipexctl.data import data, dataset_transfer
from ipexctl.install.progress import Progress
from ipexctl.lab import Lab, LabSpec
from ipexctl.machines.target import Target
from ipexctl.project import folder_transfer
from ipexctl.remote.data import content_chunks
from tests.conftest import MakeLab

SIZE = 12 << 20
CHUNK = content_chunks.MOST


def noise(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def words(size: int) -> bytes:
    found = random.Random(2)
    some = [bytes(found.choices(b"etaoinshrdlu", k=found.randint(2, 9))) for _ in range(3000)]
    return b" ".join(found.choices(some, k=size // 5))[:size]


@cache
def content(kind: str) -> bytes:
    """Made when a test asks: it takes longer than collecting a hundred tests."""
    makers = {"noise": noise, "words": words, "zeros": bytes, "short": lambda _: b"123"}
    return makers[kind](SIZE)


EDITS: dict[str, Callable[[bytes], bytes]] = {
    "a byte in the middle": lambda d: d[: SIZE // 2] + b"#" + d[SIZE // 2 + 1 :],
    "an append": lambda d: d + b"#" * 1000,
    "an insert": lambda d: d[: SIZE // 2] + b"###" + d[SIZE // 2 :],
    "a removal": lambda d: d[: SIZE // 2] + d[SIZE // 2 + 1000 :],
    "an insert at the start": lambda d: b"#" + d,
}


@pytest.mark.parametrize("kind", ["noise", "words", "zeros", "short"])
def test_chunks_are_not_too_large_and_not_too_small(kind: str) -> None:
    ours = list(content_chunks.chunks(io.BytesIO(content(kind))))
    assert b"".join(ours) == content(kind)
    assert all(len(c) <= CHUNK for c in ours)
    assert all(len(c) >= content_chunks.LEAST for c in ours[:-1])


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("kind", ["noise", "words"])
def test_an_edit_changes_few_chunks(kind: str, edit: Callable[[bytes], bytes]) -> None:
    before = set(content_chunks.chunks(io.BytesIO(content(kind))))
    after = set(content_chunks.chunks(io.BytesIO(edit(content(kind)))))
    assert sum(map(len, after - before)) <= CHUNK


def push(folder: Path, root: Path) -> data.Pushed:
    return data.push(Target(), folder, "set", Progress(), str(root))


def made(folder: Path, **files: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_of_an_edited_file_its_changed_chunks_travel(
    tmp_path: Path, edit: Callable[[bytes], bytes]
) -> None:
    root, old = tmp_path / "root", content("noise")
    folder = made(tmp_path / "set", large=old, other=noise(SIZE, 5), small=b"1")
    assert push(folder, root).sent >= 2 * SIZE
    made(folder, large=edit(old), small=b"2")
    pushed = push(folder, root)
    assert (pushed.exit_code, pushed.sent <= CHUNK + 1) == (0, True)
    here = root / "data/set/current/files"
    assert (here / "large").read_bytes() == edit(old)
    assert (here / "small").read_bytes() == b"2"
    assert (here / "large").stat().st_mode & 0o777 == 0o444
    assert [p for p in (root / "blobs/sha256").rglob("*") if p.is_file()] == []
    assert push(folder, root).recaps[0].state is Recap.OK


def test_a_renamed_and_edited_file_is_compared_with_the_one_that_went(tmp_path: Path) -> None:
    root = tmp_path / "root"
    folder = made(tmp_path / "set", old=content("noise"))
    push(folder, root)
    (folder / "old").unlink()
    made(folder, new=content("noise") + b"#")
    assert push(folder, root).sent <= CHUNK


def test_a_file_that_is_new_altogether_travels_as_one(tmp_path: Path) -> None:
    root = tmp_path / "root"
    folder = made(tmp_path / "set", large=content("noise"))
    push(folder, root)
    made(folder, large=noise(SIZE, 9))
    assert push(folder, root).sent == SIZE
    assert (root / "data/set/current/files/large").read_bytes() == noise(SIZE, 9)


def test_an_earlier_version_that_was_changed_on_the_host_gives_only_what_is_right(
    tmp_path: Path,
) -> None:
    root = tmp_path / "root"
    folder = made(tmp_path / "set", large=content("noise"))
    push(folder, root)
    there = root / "data/set/current/files/large"
    there.chmod(0o644)
    with there.open("r+b") as file:
        file.write(bytes(6 << 20))
    new = made(folder, large=content("noise") + b"#")
    assert (6 << 20) - CHUNK < push(new, root).sent <= (6 << 20) + 2 * CHUNK
    assert (root / "data/set/current/files/large").read_bytes() == content("noise") + b"#"


def test_a_link_in_place_of_an_earlier_file_is_not_read(tmp_path: Path) -> None:
    root, secret = tmp_path / "root", tmp_path / "secret"
    folder = made(tmp_path / "set", large=content("noise"))
    push(folder, root)
    secret.write_bytes(content("noise"))
    there = root / "data/set/current/files"
    (there / "large").unlink()
    (there / "large").symlink_to(secret)
    made(folder, large=content("noise") + b"#")
    assert push(folder, root).sent == SIZE + 1


def test_small_files_come_in_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_transfer, "PACK", 100_000)
    monkeypatch.setattr(dataset_transfer, "ROUND", 250_000)
    root, folder = tmp_path / "root", made(tmp_path / "set", text=b"compresses " * 20_000)
    contents = {f"f{i}": noise(50_000, i) for i in range(20)}
    made(folder, empty=b"", **contents)
    pushed = push(folder, root)
    assert pushed.exit_code == 0, pushed.recaps
    assert 20 * 50_000 <= pushed.sent < 20 * 50_000 + 10_000
    here = root / "data/set/current/files"
    assert {p.name: p.read_bytes() for p in here.iterdir()} == {
        **contents, "empty": b"", "text": b"compresses " * 20_000,
    }  # fmt: skip


def test_nothing_is_left_here_of_a_push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    push(made(tmp_path / "set", a=b"1"), tmp_path / "root")
    assert list((tmp_path / "cache/ipexctl/blobs").iterdir()) == []


# --- on practice hosts ---------------------------------------------------------------------------


def carried(lab: Lab) -> int:
    """Bytes that this machine has sent to the hosts."""
    return int(Path(f"/sys/class/net/{lab.link}/statistics/tx_bytes").read_text())


@pytest.mark.lab
def test_to_many_hosts_data_travels_once_and_of_a_change_only_chunks(
    full_rung: None, make_lab: MakeLab, tmp_path: Path
) -> None:
    lab = make_lab(LabSpec.plain(4, name="chunks"))
    target = Target(hostfile=lab.hostfile, ssh_config=lab.ssh_config)
    folder = tmp_path / "set"
    large, size = noise(60_000_000), 60_000_000 + 200 * 100_000
    made(folder, large=large, **{f"small{i}": noise(100_000, i) for i in range(200)})

    def pushed() -> tuple[data.Pushed, int]:
        before = carried(lab)
        done = data.push(target, folder, None, Progress())
        assert done.exit_code == 0, done.recaps
        return done, carried(lab) - before

    first, wire = pushed()
    assert (first.sent, first.passed) == (size, 3 * size)
    assert size < wire < 1.2 * size
    made(folder, large=large[:30_000_000] + b"#" + large[30_000_001:])
    changed, wire = pushed()
    assert changed.sent <= 4 * CHUNK
    assert wire < 4 * CHUNK + 8_000_000  # connections, lists of files
    (sums,) = {
        lab.run_in(h, ["sh", "-c", "cat ~trainer/.ipexctl/data/set/current/files/* | sha256sum"])
        .stdout
        for h in lab.hosts
    }  # fmt: skip
    ours = b"".join(p.read_bytes() for p in sorted(folder.iterdir()))
    assert sums.split()[0] == hashlib.sha256(ours).hexdigest()
    made(folder, **{f"more{i}": os.urandom(100_000) for i in range(120)})
    more, wire = pushed()
    assert (more.sent, more.passed) == (12_000_000, 36_000_000)
