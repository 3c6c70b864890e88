"""`copy` of what is not a plain file or folder, to where other things are."""

import errno
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from ipexctl.base.located_errors import Bad
from ipexctl.play.steps.file_steps import Copy
from ipexctl.play.steps.step_kinds import LocalFiles
from ipexctl.play.text.interpolation import Scope
from ipexctl.remote.play.task import Task
from tests.plays.on_host import applied, as_root
from tests.refused import refused


def copy(src: object, dest: object, *, check: bool = False, **more: Any) -> dict[str, Any]:
    files = LocalFiles()
    step = Copy(str(src), str(dest), **more)
    step.check()
    asked: list[str] = []
    task = Task(
        step.request(files, Scope({})), check, True, lambda event: asked.append(event.sha256),
        lambda: ({"last": True}, files.paths[asked[-1]].read_bytes()), [],
    )  # fmt: skip
    return applied("apply_copy", task)


@pytest.fixture
def src(tmp_path: Path) -> Path:
    path = tmp_path / "src"
    (path / "deep").mkdir(parents=True)
    (path / "a").write_text("a\n")
    (path / "deep/b").write_text("b\n")
    return path


@pytest.mark.parametrize(
    ("link", "target", "said"),
    [
        ("link", "/etc/passwd", "is a symbolic link that leads out of"),
        ("link", "../../src2", "is a symbolic link that leads out of"),
        ("deep/link", "{above}", "is a symbolic link that leads out of"),
        ("deep/link", "../deep", "is a symbolic link to a folder that it is in"),
        ("link", "link", "is a symbolic link to nothing"),
        ("link", "deep/none", "is a symbolic link to nothing"),
    ],
)
def test_links_in_a_copied_folder(link: str, target: str, said: str, src: Path) -> None:
    (src / link).symlink_to(target.format(above=src.parent))
    with pytest.raises(Bad, match=said):
        copy(src, src.parent / "there")
    assert not (src.parent / "there").exists()


def test_a_link_to_a_folder_inside_is_copied_with_what_is_in_it(src: Path) -> None:
    (src / "again").symlink_to("deep")
    assert copy(f"{src}/", src.parent / "there")["changed"]
    assert (src.parent / "there/again/b").read_text() == "b\n"
    assert not (src.parent / "there/again").is_symlink()
    assert copy(f"{src}/", src.parent / "there")["changed"] is False


@pytest.mark.parametrize("path", ["/dev/zero", "pipe", "none"])
def test_a_source_that_is_no_file(path: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(Bad, match="src: "):
        copy(path, tmp_path / "there")
    with refused("argument-missing"):
        copy("", tmp_path / "there")


def test_more_files_than_a_copy_takes_are_not_all_listed(tmp_path: Path) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for n in range(10_001):
        os.link(many / "0", many / str(n)) if n else (many / "0").touch()
    with pytest.raises(Bad, match="more than 10,000 files"):
        copy(many, tmp_path / "there")


def test_other_things_in_a_folder_are_left_out(src: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(src)
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
    copy(f"{src}/", src.parent / "there")
    assert sorted(os.listdir(src.parent / "there")) == ["a", "deep"]


@pytest.mark.parametrize("name", ["a\nb", "é", "\x1b[2J", "\udcff", "-rf", "x" * 255])
def test_names_of_all_kinds(name: str, src: Path) -> None:
    (src / "deep/b").rename(src / "deep" / name)
    found = copy(f"{src}/", src.parent / "there")
    assert (src.parent / "there/deep" / name).read_text() == "b\n"
    assert found["changed"]


def test_what_is_in_the_way(src: Path) -> None:
    there = src.parent / "there"
    (there / "a").mkdir(parents=True)
    with refused("wrong-file-kind", "there/a", "directory"):
        copy(f"{src}/", there)
    (there / "a").rmdir()
    os.mkfifo(there / "a")
    with refused("wrong-file-kind", "there/a", "pipe"):
        copy(f"{src}/", there)


@as_root
def test_a_hard_link_is_replaced_and_not_written_through(src: Path) -> None:
    there, root = src.parent / "there", src.parent / "root"
    there.mkdir()
    for content, mode in (("old\n", ""), ("a\n", "0666")):
        root.write_text(content)
        root.chmod(0o600)
        (there / "a").unlink(missing_ok=True)
        os.link(root, there / "a")
        copy(src / "a", there / "a", mode=mode)
        assert root.read_text() == content
        assert stat.S_IMODE(root.stat().st_mode) == 0o600
        assert (there / "a").read_text() == "a\n"


def test_an_unreadable_source_is_named(src: Path, monkeypatch: Any) -> None:
    def refuse(self: LocalFiles, path: Path) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(LocalFiles, "add", refuse)
    with refused("local-file-unreadable", f"{src}/a: {os.strerror(errno.EACCES)}"):
        copy(src / "a", src.parent / "there")


def test_a_disk_that_is_full_leaves_nothing_for_the_next_file(tmp_path: Path) -> None:
    """What was sent of the file is read to its end."""
    frames = [({"part": True}, b"a"), ({"part": True}, b"b"), ({"last": True}, b"")]
    task = Task({}, False, False, lambda event: None, lambda: frames.pop(0), [])
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(OSError, match="space"):
        task.receive("", full)
    assert frames == []
