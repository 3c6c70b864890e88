"""Temporary folders on a host: those of living processes stay, what killed ones left goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ipexctl.remote import scratch_folder

OWNER = """
import os, sys, time
from ipexctl.remote import scratch_folder
print(scratch_folder.make_scratch_folder(sys.argv[1]), flush=True)
if sys.argv[2] == "fork":
    child = os.fork()
    if child:
        print(child, flush=True)
time.sleep(100)
"""
Owner = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(scratch_folder, "all_temporary", lambda: [str(tmp_path)])
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def owner(tmp: Path) -> Iterator[Owner]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", OWNER, *arguments]
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("kind", ["", "proof-"])
def test_it_goes_when_its_owner_was_killed_and_not_before(
    owner: Owner, tmp: Path, kind: str
) -> None:
    process = owner(kind, "alone")
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    os.utime(folder, (0, 0))  # age says nothing
    scratch_folder.sweep_scratch_folders()
    assert folder.is_dir() and folder.parent == tmp
    process.kill()
    process.wait()
    scratch_folder.sweep_scratch_folders()
    assert not folder.exists()


def test_a_supervisor_keeps_it_when_its_guardian_was_killed(owner: Owner) -> None:
    process = owner("", "fork")
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    child = int(process.stdout.readline())
    process.kill()
    process.wait()
    scratch_folder.sweep_scratch_folders()
    assert folder.is_dir()
    os.kill(child, signal.SIGKILL)
    process.stdout.read()  # until it has ended
    scratch_folder.sweep_scratch_folders()
    assert not folder.exists()


def test_what_only_looks_like_one_stays(tmp: Path) -> None:
    (tmp / "kept").mkdir()
    (tmp / "kept/lock").write_text("")
    (tmp / "ipexctl-abcdefg1").symlink_to(tmp / "kept")  # to a folder of ours
    (tmp / "ipexctl-abcdefg2").mkdir()  # it is just being made
    (tmp / "ipexctl-abcdefg3").mkdir()
    (tmp / "ipexctl-abcdefg3/lock").symlink_to(tmp / "kept/lock")
    (tmp / "ipexctl-abcdefg4").write_text("a file")
    (tmp / "ipexctl-of-someone").mkdir()
    before = sorted(path.name for path in tmp.iterdir())
    scratch_folder.sweep_scratch_folders()
    assert sorted(path.name for path in tmp.iterdir()) == before


def test_what_was_killed_before_it_had_a_lock_goes_later(tmp: Path) -> None:
    (tmp / "ipexctl-abcdefg1").mkdir()
    os.utime(tmp / "ipexctl-abcdefg1", (0, 0))
    scratch_folder.sweep_scratch_folders()
    assert list(tmp.iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="another user's folder needs root")
def test_another_users_folder_stays(tmp: Path) -> None:
    made = Path(scratch_folder.make_scratch_folder())
    os.close(scratch_folder.locks.pop(str(made)))
    os.chown(made, 12345, 12345)
    scratch_folder.sweep_scratch_folders()
    assert made.is_dir()


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


def test_a_folder_that_was_given_the_name_of_a_temporary_one_stays(shared: Path) -> None:
    """`mv thesis ipexctl-abcdefgh`, by whoever cannot remove what is in it."""
    thesis = shared / "ipexctl-abcdefgh"
    thesis.mkdir()
    (thesis / "chapter").write_text("1")
    os.utime(thesis, (1, 1))
    scratch_folder.sweep_scratch_folders()
    assert (thesis / "chapter").is_file()
    shared.chmod(0o1777)
    scratch_folder.sweep_scratch_folders()
    assert not thesis.exists()


def test_no_temporary_folder_is_made_where_others_can_replace_it(shared: Path) -> None:
    folder = scratch_folder.make_scratch_folder()
    try:
        assert Path(folder).parent != shared
    finally:
        scratch_folder.remove_scratch_folder(folder)
