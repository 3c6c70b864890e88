"""A new version of a dataset: what of it travels, and what a host makes of it."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path

import pytest

from ipexctl.base.host_outcome import Recap
from ipexctl.data import data, dataset_transfer
from ipexctl.install.progress import Progress
from ipexctl.lab import Lab, LabSpec
from ipexctl.machines.target import Target
from ipexctl.project import folder_transfer
from tests.conftest import MakeLab

SIZE = 2 << 20


def noise(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def push(folder: Path, root: Path) -> data.Pushed:
    return data.push(Target(), folder, "set", Progress(), str(root))


def made(folder: Path, **files: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def test_a_changed_large_file_is_sent_as_a_whole_and_an_unchanged_one_is_not(
    tmp_path: Path,
) -> None:
    root, old = tmp_path / "root", noise(SIZE)
    folder = made(tmp_path / "set", large=old, other=noise(SIZE, 5), small=b"1")
    assert push(folder, root).sent >= 2 * SIZE
    edited = old[: SIZE // 2] + b"#" + old[SIZE // 2 + 1 :]
    made(folder, large=edited, small=b"2")
    pushed = push(folder, root)
    assert (pushed.exit_code, pushed.sent) == (0, SIZE + 1)
    here = root / "data/set/current/files"
    assert (here / "large").read_bytes() == edited
    assert (here / "other").read_bytes() == noise(SIZE, 5)
    assert (here / "small").read_bytes() == b"2"
    assert (here / "large").stat().st_mode & 0o777 == 0o444
    assert [p for p in (root / "blobs/sha256").rglob("*") if p.is_file()] == []
    assert push(folder, root).recaps[0].state is Recap.OK


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
def test_to_many_hosts_data_travels_once_and_of_a_change_only_its_files(
    full_rung: None, make_lab: MakeLab, tmp_path: Path
) -> None:
    lab = make_lab(LabSpec.plain(4, name="versions"))
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
    assert (changed.sent, changed.passed) == (60_000_000, 3 * 60_000_000)
    assert 60_000_000 < wire < 1.2 * 60_000_000
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
