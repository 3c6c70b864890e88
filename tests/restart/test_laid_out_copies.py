"""A checkpoint that was laid out for an attempt is a copy of it on each host of that attempt."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from ipexctl.common.keeper_messages import CheckpointLayout, KeptCheckpoint
from ipexctl.common.run_orders import StartOrder
from ipexctl.remote.checkpoints.checkpoint_transfer import CheckpointCopies
from ipexctl.remote.checkpoints.copy_folder import CopyFolder
from ipexctl.remote.checkpoints.newest_checkpoint import newest_complete_checkpoint
from tests.made import start_order

FIRST = "20260101-000000-000001"
ATTEMPTS = {FIRST: 1, f"{FIRST}-r02": 2}
FILES = {"model.pt": b"weights", "rank0/state.bin": b"state"}


class Host:
    """`parts`: those of out/c-7 that its first attempt left on it."""

    def __init__(self, root: Path, name: str, parts: dict[str, dict[str, bytes]]) -> None:
        self.root, self.name, self.work = root / name, name, root / name / "work"
        (self.work / "out").mkdir(parents=True)
        self.copies = CheckpointCopies(str(self.root / "runs"), {})
        self.rows: list[tuple[str, str, int, list[str]]] = []
        copies = CopyFolder(str(self.root / "runs" / FIRST / "copies" / name))
        (self.root / "runs" / FIRST).mkdir(parents=True)
        (self.root / "runs" / f"{FIRST}-r02").mkdir()
        copies.make()
        for writer, files in parts.items():
            made = root / "made" / writer / "out/c-7"
            for below, data in files.items():
                (made / below).parent.mkdir(parents=True, exist_ok=True)
                (made / below).write_bytes(data)
            infos = {b: (made / b).stat() for b in files}
            seen = {f"out/c-7/{b}": (i.st_size, i.st_mtime_ns, i.st_ino) for b, i in infos.items()}
            sha = copies.keep(str(root / "made" / writer), seen)
            self.rows.append((writer, sha, Path(copies.path(sha)).stat().st_size, []))

    def lays_out(self) -> None:
        lay = CheckpointLayout("out/c-7", (1, 3), 5.0, self.rows, members=["out/c-7"])
        asked = self.order()
        paths = self.copies.lay_out(asked, lay, ATTEMPTS)
        self.copies.keep_laid_out(asked, lay, paths)
        self.copies.remove_old_copies(ATTEMPTS, 2)

    def order(self) -> StartOrder:
        work, run_id = str(self.work), f"{FIRST}-r02"
        return start_order(
            root=str(self.root), cwd=work, checkpoints=["out/c-*"], host=self.name, run_id=run_id
        )

    def tells(self) -> list[KeptCheckpoint]:
        return self.copies.report(ATTEMPTS, 1).checkpoints


@pytest.fixture
def hosts(tmp_path: Path) -> list[Host]:
    (tmp_path / "a").mkdir()
    parts = {"a": {"model.pt": b"weights"}, "b": {"rank0/state.bin": b"state"}}
    return [Host(tmp_path, name, parts) for name in ("a", "b", "c")]


def test_any_host_that_laid_it_out_can_give_it(hosts: list[Host]) -> None:
    for host in hosts:
        host.lays_out()
        assert {b: (host.work / "out/c-7" / b).read_bytes() for b in FILES} == FILES
    found = newest_complete_checkpoint({host.name: host.tells() for host in hosts})
    assert found and found.version == (2, 0) and found.age >= 5.0
    (part,) = found.parts
    assert part[3] == ["a", "b", "c"]
    alone = newest_complete_checkpoint({"c": hosts[2].tells()})
    assert alone and alone.parts[0][1] == part[1]
    document = CopyFolder(str(hosts[2].root / f"runs/{FIRST}-r02/copies/c")).part(part[1])
    names = sorted(f"out/c-7/{below}" for below in FILES)
    assert document and sorted(row[0] for row in document["files"]) == names


def test_what_the_ranks_do_with_their_files_changes_no_copy(hosts: list[Host]) -> None:
    hosts[0].lays_out()
    (hosts[0].work / "out/c-7/model.pt").write_bytes(b"other  ")
    shutil.rmtree(hosts[0].work / "out/c-7")
    (one,) = hosts[0].tells()
    assert one.held == [part.sha for part in one.parts.values()]
    asked = hosts[0].order()
    rows = [(w, part.sha, part.list, []) for w, part in one.parts.items()]
    layout = CheckpointLayout("out/c-7", (1, 3), 5.0, rows, members=["out/c-7"])
    hosts[0].copies.lay_out(asked, layout, ATTEMPTS)
    assert (hosts[0].work / "out/c-7/model.pt").read_bytes() == b"weights"
    hosts[0].copies.release(asked)
    assert hosts[0].tells() == []


def put(path: Path, text: str, *, age: float = 0.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age, time.time() - age))


def test_nothing_newer_is_left_beside_what_was_laid_out(tmp_path: Path) -> None:
    """The host of rank 0 has a newer model.pt and a half-written step of its own."""
    host = Host(tmp_path, "a", {})
    work, pair = host.work, ["out/model.pt", "out/optim.pt"]
    copies = CopyFolder(str(host.root / "runs" / FIRST / "copies" / "a"))
    for name in pair:
        put(work / name, "step 25", age=50)
    infos = {name: (work / name).stat() for name in pair}
    seen = {n: (i.st_size, i.st_mtime_ns, i.st_ino) for n, i in infos.items()}
    sha = copies.keep(str(work), seen)
    rows = [("a", sha, Path(copies.path(sha)).stat().st_size, list[str]())]
    layout = CheckpointLayout("out", (1, 3), 50.0, rows, "*", pair)
    put(work / "out/model.pt", "step 75", age=10)
    put(work / "out/ema.pt", "step 75", age=10)
    put(work / "out/ck-80/half.pt", "step 80", age=10)
    put(work / "out/ck-20/old.pt", "step 20", age=60)
    put(work / "out/sent.pt", "with the project", age=1000)
    asked = host.order().replace(checkpoints=["out/*.pt", "out/ck-*"])
    host.copies.put_newer_aside(asked, layout, time.time() - 500)
    assert host.copies.lay_out(asked, layout, ATTEMPTS) == pair
    left = {p.relative_to(work).as_posix(): p.read_text() for p in (work / "out").rglob("*.pt")}
    assert left == {
        "out/model.pt": "step 25", "out/optim.pt": "step 25", "out/sent.pt": "with the project",
        "out/ck-20/old.pt": "step 20",
    }  # fmt: skip
    aside = work / ".ipexctl-aside" / f"{FIRST}-r02" / "out"
    assert sorted(path.name for path in aside.iterdir()) == ["ck-80", "ema.pt", "model.pt"]
    assert (aside / "model.pt").read_text() == "step 75"


def test_an_attempt_from_the_beginning_finds_nothing_of_the_one_before(tmp_path: Path) -> None:
    host = Host(tmp_path, "a", {})
    put(host.work / "out/c-1/half", "step 1", age=10)
    put(host.work / "out/c-0/sent", "with the project", age=1000)
    host.copies.put_newer_aside(host.order(), None, time.time() - 500)
    assert [path.name for path in (host.work / "out").iterdir()] == ["c-0"]
