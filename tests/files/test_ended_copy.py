"""The next run takes unchanged files from the one that has ended: only these, and only from such a
run. Real agents on this machine, one per run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent import Agent
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.wire.transport import LocalTransport
from ipexctl.project.files.project_files import PACKED
from ipexctl.remote.project import ended_copy
from tests.files.test_sync import fill, taken

FILES = {
    "train.py": "print(1)\n",
    "pkg/model.py": "x = 1\n",
    "pkg/data.py": "y = 2\n",
    "go.sh": "#!",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = fill(tmp_path / "p", FILES)
    (folder / "large").write_bytes(os.urandom(PACKED + 1))
    (folder / "go.sh").chmod(0o755)
    return folder


def open_agent() -> Agent:
    return start_host_agent(LocalTransport(), Host("here", local=True))


def run(root: Path, project: Path, name: str, copies: int = 1) -> Path:
    """The folder of a run that has ended."""
    with closing(open_agent()) as agent:
        taken(project).bring(agent, str(root), name, copies)
    return root / "runs" / name / "work"


def inodes(work: Path) -> dict[str, int]:
    files = (path for path in work.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(work)): path.stat().st_ino for path in files}


def assert_is_the_project(work: Path, project: Path) -> None:
    for path in project.rglob("*"):
        copy = work / path.relative_to(project)
        if path.is_file():
            assert copy.read_bytes() == path.read_bytes(), path
            assert os.access(copy, os.X_OK) == os.access(path, os.X_OK), path


def test_unchanged_files_move_to_the_next_run_and_what_ranks_wrote_stays(tmp_path, project) -> None:
    first = run(tmp_path / "root", project, "run-1")
    before = inodes(first)
    (first / "out.pt").write_bytes(b"result")
    (first / "pkg" / "log").write_bytes(b"line")
    second = run(tmp_path / "root", project, "run-2")
    assert inodes(second) == before
    assert_is_the_project(second, project)
    assert inodes(first).keys() == {"out.pt", "pkg/log"}
    third = run(tmp_path / "root", project, "run-3")  # a file that was taken can be taken again
    assert inodes(third) == before


def test_a_folder_in_which_nothing_changed_moves_as_it_is(tmp_path: Path, project: Path) -> None:
    for name, text in {"a/b/one.py": "1", "a/two.py": "2", "c/three.py": "3"}.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    (project / "a" / "link").symlink_to("b/one.py")
    (project / "empty").mkdir()
    first = run(tmp_path / "root", project, "run-1")
    folders = {name: (first / name).stat().st_ino for name in ("a", "a/b", "c", "empty", "pkg")}
    (first / "c" / "out.pt").write_text("result")
    (first / "pkg").chmod(0o755)
    second = run(tmp_path / "root", project, "run-2")
    assert_is_the_project(second, project)
    assert os.readlink(second / "a" / "link") == "b/one.py"
    came = [name for name, inode in folders.items() if (second / name).stat().st_ino == inode]
    assert came == ["a", "a/b", "empty"]
    assert (first / "c" / "out.pt").read_text() == "result"
    assert not (second / "c" / "out.pt").exists()
    (second / "a" / "link").unlink()
    (second / "a" / "link").symlink_to("two.py")
    third = run(tmp_path / "root", project, "run-3")
    assert os.readlink(third / "a" / "link") == "b/one.py"
    assert_is_the_project(third, project)


def append(work: Path) -> None:
    with (work / "train.py").open("a") as file:
        file.write("# changed by a rank\n")


def change_and_restore_mtime(work: Path) -> None:
    info = (work / "train.py").stat()
    (work / "train.py").write_text("print(2)\n")
    os.utime(work / "train.py", ns=(info.st_atime_ns, info.st_mtime_ns))


def replace(work: Path) -> None:
    (work / "new").write_text(FILES["train.py"])
    (work / "new").rename(work / "train.py")


def add_link(work: Path) -> None:
    os.link(work / "train.py", work / "backup.py")


def change_mode(work: Path) -> None:
    (work / "train.py").chmod(0o400)


def move_folder(work: Path) -> None:
    (work / "pkg").rename(work.parent / "elsewhere")
    (work / "pkg").symlink_to(work.parent / "elsewhere")


CHANGES = {
    append: "train.py", change_and_restore_mtime: "train.py", replace: "train.py",
    add_link: "train.py", change_mode: "train.py", move_folder: "pkg/model.py",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "path"), CHANGES.items(), ids=lambda v: getattr(v, "__name__", v)
)
def test_a_file_that_a_rank_changed_is_made_anew(
    tmp_path: Path, project: Path, change: Callable[[Path], None], path: str
) -> None:
    first = run(tmp_path / "root", project, "run-1")
    change(first)
    changed, content = inodes(first.resolve()), (first / path).read_bytes()
    second = run(tmp_path / "root", project, "run-2")
    assert_is_the_project(second, project)
    assert inodes(second)[path] not in changed.values()
    assert (first / path).read_bytes() == content
    assert inodes(second)["large"] == changed["large"]  # others are taken


def test_an_edited_file_comes_with_its_new_content(tmp_path: Path, project: Path) -> None:
    before = inodes(run(tmp_path / "root", project, "run-1"))
    (project / "train.py").write_text("print(3)\n")
    second = run(tmp_path / "root", project, "run-2")
    assert_is_the_project(second, project)
    assert {path for path, inode in inodes(second).items() if before[path] != inode} == {"train.py"}


def test_a_run_that_is_active_keeps_its_files(tmp_path: Path, project: Path) -> None:
    root = tmp_path / "root"
    with closing(open_agent()) as agent:
        taken(project).bring(agent, str(root), "run-1")
        before = inodes(root / "runs/run-1/work")
        second = run(root, project, "run-2")
        assert inodes(root / "runs/run-1/work") == before
    assert not set(before.values()) & set(inodes(second).values())
    assert_is_the_project(second, project)


def test_runs_that_keep_their_copies_by_the_settings_keep_them(tmp_path, project) -> None:
    root = tmp_path / "root"
    first, second = (run(root, project, f"run-{i}", copies=2) for i in (1, 2))
    oldest, newer = inodes(first), inodes(second)
    third = run(root, project, "run-3", copies=2)
    assert (inodes(third), inodes(second), inodes(first)) == (oldest, newer, {})


@pytest.mark.parametrize("placed", ['{"boot": "another", "stamps": {}}', "{}", "not JSON", "[]"])
def test_a_copy_of_another_boot_is_not_used(tmp_path: Path, project: Path, placed: str) -> None:
    first = run(tmp_path / "root", project, "run-1")
    record = first.parent / ended_copy.PLACED
    if "another" in placed:
        stamps = json.loads(record.read_text())["stamps"]
        placed = json.dumps({"boot": "another", "stamps": stamps})
    record.write_text(placed)
    before = inodes(first)
    second = run(tmp_path / "root", project, "run-2")
    assert inodes(first) == before
    assert_is_the_project(second, project)


def test_another_project_takes_nothing(tmp_path: Path, project: Path) -> None:
    first = run(tmp_path / "root", project, "run-1")
    before = inodes(first)
    other = fill(tmp_path / "q", {**FILES, **{f"f{i}.py": f"{i}" for i in range(9)}})
    run(tmp_path / "root", other, "run-2")
    assert inodes(first) == before


@pytest.mark.parametrize("name", ["placed", "tree"])
def test_a_pipe_that_a_rank_put_into_its_runs_folder_stops_no_later_run(
    tmp_path: Path, project: Path, name: str
) -> None:
    record = run(tmp_path / "root", project, "run-1").parent / name
    record.unlink()
    os.mkfifo(record)
    assert_is_the_project(run(tmp_path / "root", project, "run-2"), project)
