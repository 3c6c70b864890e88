"""What a host says it has is there until it is laid out, whatever is removed meanwhile."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ipexctl.machines.agent import Agent
from ipexctl.project import folder_transfer
from ipexctl.project.files.project_files import PACKED
from ipexctl.remote.blobs import blobs
from ipexctl.remote.project import synced_folders
from ipexctl.remote.remove import prune_rules
from ipexctl.remote.run_files import run_folders
from ipexctl.remove.prune_limits import PruneLimits
from tests.files.test_space_limits import fresh_agent
from tests.files.test_sync import fill, taken


class Quiet:
    """A call of which nobody reads the events."""

    def emit(self, event: object, body: bytes = b"") -> None:
        return None


@pytest.fixture
def agents() -> Iterator[list[Agent]]:
    with ExitStack() as stack:
        found = [fresh_agent(), fresh_agent()]
        for agent in found:
            stack.callback(agent.close)
        yield found


def edited(folder: Path, number: int) -> Path:
    return fill(folder, {"train.py": f"print({number})"})


def test_an_edit_in_a_folder_of_which_the_pack_is_the_oldest(agent, tmp_path) -> None:
    """The pack of the edit is one too many: the oldest goes, with all that was not edited."""
    folder, root = fill(tmp_path / "p", {f"pkg/m{i}.py": f"{i}" for i in range(9)}), tmp_path / "r"
    taken(folder).bring(agent, str(root), "first")
    for i in range(synced_folders.PACKS - 1):
        taken(edited(tmp_path / "q", i)).bring(agent, str(root), f"run-{i}")
    taken(edited(folder, 99)).bring(agent, str(root), "last")
    assert (root / "runs/last/work/pkg/m0.py").read_text() == "0"
    assert taken(edited(folder, 100)).bring(agent, str(root), "next").bytes == len("print(100)")


def test_packs_beyond_the_limit_go_once_none_of_them_is_needed(agent, tmp_path) -> None:
    """One that consists of more packs than are kept is laid out from all of them."""
    folder, root = tmp_path / "p", tmp_path / "r"
    for i in range(synced_folders.PACKS + 6):
        taken(fill(folder, {f"m{i}.py": f"{i}"})).bring(agent, str(root), f"run-{i}")
    work = root / f"runs/run-{synced_folders.PACKS + 5}/work"
    assert sorted(p.name for p in work.iterdir()) == sorted(p.name for p in folder.iterdir())
    assert len(list((root / "blobs/packs").glob("*.pack"))) <= synced_folders.PACKS


def test_what_a_sync_was_told_is_here_is_not_pruned(agents, tmp_path) -> None:
    """The sync begins when the prune has just chosen what goes."""
    one, other = agents
    folder, root = fill(tmp_path / "p", {"a.py": "1", "b.py": "2"}), tmp_path / "r"
    (folder / "large").write_bytes(os.urandom(PACKED + 1))
    taken(folder).bring(one, str(root), "run-1")
    taken(fill(tmp_path / "q", {"other.py": "3"})).bring(one, str(root), "run-2")
    bundle = taken(edited(folder, 1)).bundle
    asked = {"root": str(root), "run_id": "run-3", "cwd": "", "key": bundle.tree.key}
    module, begun = "project.synced_folders", []

    class Late(prune_rules.Pruning):
        def split_trees(self):
            found = super().split_trees()
            if not begun:
                begun.append(folder_transfer.ask_missing(other, bundle, asked, module)[1])
            return found

    pruning = Late(str(root), {**PruneLimits().for_host(""), "project_mb": 0}, check=False)
    pruning.prune_blobs()
    assert [bundle.tree.files[i].path for i in begun[0]] == ["train.py"]
    folder_transfer.send_rest(other, bundle, asked, begun[0])
    assert sorted(p.name for p in (root / "runs/run-3/work").iterdir()) == [
        "a.py", "b.py", "large", "train.py",
    ]  # fmt: skip
    pruning.prune_blobs()  # the sync is over: what only run-2 had can go
    assert pruning.found["blobs"][0]


def test_what_removes_waits_for_nobody_and_a_sync_waits_for_it(tmp_path) -> None:
    root = str(tmp_path)
    kept = blobs.lock_against_removal(Quiet(), root)
    with blobs.lock_for_removal(root) as free:
        assert not free
    os.close(kept)
    with blobs.lock_for_removal(root) as free, blobs.lock_for_removal(root) as second:
        assert (free, second) == (True, False)


@pytest.mark.parametrize("moment", ["no lock file yet", "not locked yet"])
def test_a_run_that_has_just_made_its_folder_is_not_an_old_one(tmp_path, monkeypatch, moment):
    """A prune that keeps no ended runs comes between the folder, its lock file and the lock."""
    folder, limits = tmp_path / "runs/run-1", {**PruneLimits().for_host(""), "runs": 1, "days": 0}
    pruned: list[str] = []
    for name in ("run-1", "run-2"):
        (tmp_path / "runs" / name).mkdir(mode=0o700, parents=True)
    os.close(os.open(tmp_path / "runs/run-2/lock", os.O_CREAT))

    def prune() -> None:
        if not pruned:
            pruned.append(moment)
            prune_rules.Pruning(str(tmp_path), limits, check=False).prune_runs()

    def late(fd: int, kind: int) -> None:
        prune()
        flock(fd, kind)

    flock = fcntl.flock
    monkeypatch.setattr(run_folders, "held", {})
    if moment == "no lock file yet":
        prune()
        assert folder.exists()
    else:
        monkeypatch.setattr(fcntl, "flock", late)
    run_folders.hold_folder(str(folder))
    assert pruned and run_folders.is_locked(str(folder / "lock"))
