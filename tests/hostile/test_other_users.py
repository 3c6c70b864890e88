"""Other users who can rename what is in a folder that everyone can write to (no sticky bit)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ipexctl.errors import InputError
from ipexctl.local.plays import play_files
from ipexctl.remote import scratch_folder


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
    scratch_folder.sweep()
    assert (thesis / "chapter").is_file()
    shared.chmod(0o1777)
    scratch_folder.sweep()
    assert not thesis.exists()


def test_no_temporary_folder_is_made_where_others_can_replace_it(shared: Path) -> None:
    folder = scratch_folder.make()
    try:
        assert Path(folder).parent != shared
    finally:
        scratch_folder.remove(folder)


def test_a_play_below_such_a_folder_is_refused_before_it_is_read(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They could put their own folder there while it is read, and ours back for the check."""
    mine = shared / "mine"
    mine.mkdir()
    (mine / "p.yaml").write_text("steps: [sh: id]\n")
    read: list[Path] = []
    monkeypatch.setattr(play_files, "read_file", lambda path: read.append(path) or b"")
    with pytest.raises(InputError, match="writable by everyone") as refused:
        play_files.read_play_file(str(mine / "p.yaml"))
    assert read == []
    assert refused.value.hint == f"chmod go-w {shared}"
