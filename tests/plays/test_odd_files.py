"""What stands at a path may be anything, a disk may be full, and an agent may die at any moment."""

import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plays.on_host import apply, as_root, file, line
from tests.refused import refused

REPO = Path(__file__).parents[2]


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        folder = os.open(path.parent, os.O_RDONLY)
        one.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.close(folder)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


ODD = {
    "a pipe": _pipe, "a socket": _socket, "a device": _device, "a directory": Path.mkdir,
}  # fmt: skip


@pytest.mark.timeout(300)
@pytest.mark.parametrize("shape", ODD)
def test_what_is_not_a_file_is_refused_and_waits_for_nobody(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "odd"
    ODD[shape](path)
    for step in (lambda: file(path, content="x"), lambda: file(path), lambda: line(path, "x")):
        with refused("wrong-file-kind", shape) as e:
            step()
        assert "state: absent" in e.value.hint


def test_the_path_that_dots_lead_to_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "kept/inner").mkdir(parents=True)
    for path in (f"{tmp_path}/kept/inner/..", "/", "/..", "/tmp/../.."):
        with refused("path-protected"):
            file(path, state="absent", check=True)
        if path.startswith(str(tmp_path)):
            with refused("path-protected", "kept"):
                file(path, state="absent")
    assert (tmp_path / "kept/inner").is_dir()


def test_links_in_a_removed_folder_are_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/a").touch()
    (tmp_path / "gone/deep").mkdir(parents=True)
    (tmp_path / "gone/deep/link").symlink_to(tmp_path / "kept")
    assert file(tmp_path / "gone", state="absent")["changed"]
    assert os.listdir(tmp_path) == ["kept"]
    assert os.listdir(tmp_path / "kept") == ["a"]


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "é" * 127, "x" * 255, "-rf", "$(id)", " "])
def test_names_of_all_kinds(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    assert file(path, content="one\n")["detail"] == "create"
    assert line(path, "two")["changed"]
    assert path.read_text() == "one\ntwo\n"
    assert file(tmp_path / ("l" + name[1:]), state="link", src="/nowhere")["changed"]
    assert file(path, state="absent")["changed"]
    assert os.listdir(tmp_path) == ["l" + name[1:]]


def test_a_diff_of_a_name_with_lines_has_no_line_more(tmp_path: Path) -> None:
    found = file(tmp_path / "a\n+++ b", content="one\n")
    assert [each[:1] for each in found["diff"].splitlines()] == ["-", "+", "@", "+"]


@as_root
def test_a_full_disk_leaves_the_old_content(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", small], check=False, capture_output=True
    )
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.decode()}")
    try:
        file(small / "x", content="old\n")
        for size in (1 << 17, 1 << 20):
            with refused("write-failed", f"{small}/x") as e:
                file(small / "x", content="n" * size)
            assert e.value.hint == f"df -h {small}"
        assert (small / "x").read_text() == "old\n"
        assert os.listdir(small) == ["x"]
    finally:
        subprocess.run(["umount", small], check=True)


@as_root
def test_an_immutable_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old\n")
    if subprocess.run(["chattr", "+i", path], check=False, capture_output=True).returncode:
        pytest.skip("this file system has no immutable files")
    try:
        with refused("write-failed", path) as e:
            file(path, content="new\n")
        assert e.value.hint == f"lsattr -d {tmp_path} {path}"
    finally:
        subprocess.run(["chattr", "-i", path], check=True)
    assert path.read_text() == "old\n"
    assert os.listdir(tmp_path) == ["x"]


WRITER = """
import sys
from ipexctl.remote.failure import Failure
from ipexctl.remote.play import safe_paths
n = 0
while True:
    n += 1
    try:
        with safe_paths.open_place(sys.argv[1]) as place, place.open_replacement() as new:
            for i in range(40):
                new.write(b"%d\\n" % n * 500)
                new.flush()
    except Failure as e:
        assert "another play is writing it" in e.what, e.what
"""


def _writer(path: Path) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path)], env=environment)


def test_an_agent_that_is_killed_leaves_the_old_or_the_new_content(tmp_path: Path) -> None:
    path = tmp_path / "x"
    chance, left = random.Random(18), 0
    for _ in range(20):
        writer = _writer(path)
        while writer.poll() is None and not path.exists():
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.05))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        lines = path.read_bytes().splitlines()
        assert len(lines) == 20_000
        assert len(set(lines)) == 1
        left += len(os.listdir(tmp_path)) - 1
        file(path, content="again\n")
        assert os.listdir(tmp_path) == ["x"]
        path.unlink()
    assert left  # it was in the middle at least once


@pytest.fixture
def _busy(tmp_path: Path) -> Iterator[Path]:
    with (tmp_path / ".x.ipexctl-new").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        yield tmp_path / "x"


def test_a_file_that_another_play_writes_is_not_taken_from_it(_busy: Path) -> None:
    _busy.write_text("old\n")
    with refused("write-conflict", _busy):
        file(_busy, content="new\n")
    assert _busy.read_text() == "old\n"
    assert (_busy.parent / ".x.ipexctl-new").exists()


def test_two_plays_at_once_never_leave_a_half_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    file(path, content="0\n" * 20_000)
    writers = [_writer(path), _writer(path)]
    try:
        until = time.monotonic() + 3
        while time.monotonic() < until:
            lines = path.read_bytes().splitlines()
            assert (len(lines), len(set(lines))) == (20_000, 1)
    finally:
        assert [writer.poll() for writer in writers] == [None, None]
        for writer in writers:
            writer.kill()
            writer.wait()


def test_a_link_on_the_way_counts_as_both_names(tmp_path: Path) -> None:
    """So that --check knows: a step that moves the link changes what is below it."""
    (tmp_path / "v1").mkdir()
    (tmp_path / "now").symlink_to("v1")
    found = file(tmp_path / "now/x", content="", check=True)
    assert found["reads"] == [f"path:{tmp_path}/now/x", f"path:{tmp_path}/v1/x"]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("a\x0cb\u2028c\x85d\n")
    assert line(path, "b", state="absent")["changed"] is False
    found = line(path, "e")
    assert path.read_text() == "a\x0cb\u2028c\x85d\ne\n"
    assert "no newline" not in found["diff"]
    assert apply("apply_line", path=str(path), line="e")["changed"] is False
