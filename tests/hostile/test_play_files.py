"""Which file a play is read from: names of shipped plays, files that others can write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ipexctl.errors import InputError
from ipexctl.play import play_files
from ipexctl.play.play_files import read_play_file, shipped_plays
from tests.plays.on_host import OTHER, as_root
from tests.refused import refused

PLAY = "steps: [sh: id]\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_here_does_not_take_the_name_of_a_shipped_play(folder: Path) -> None:
    for name, shipped in shipped_plays().items():
        (folder / name).write_text(PLAY)
        assert read_play_file(name)[0] == shipped.read_text()
        assert read_play_file(f"./{name}")[0] == PLAY


def test_a_file_needs_a_folder_or_a_suffix(folder: Path) -> None:
    (folder / "mine").write_text(PLAY)
    with pytest.raises(InputError) as refused:
        read_play_file("mine")
    assert "./mine" in refused.value.hint
    assert read_play_file("./mine")[0] == PLAY


@pytest.mark.parametrize("word", ["nightly-check.yaml", "./nightly-check"])
@pytest.mark.parametrize("mode", [0o646, pytest.param(0o600, marks=as_root)])
def test_a_play_that_others_can_write_is_refused(folder: Path, word: str, mode: int) -> None:
    (folder / word).write_text(PLAY)
    assert read_play_file(word)[0] == PLAY
    (folder / word).chmod(mode)
    if mode == 0o600:
        os.chown(word, OTHER, OTHER)
    with refused("play-untrusted", word):
        read_play_file(word)


def test_a_play_in_a_folder_that_others_can_write_is_refused(folder: Path) -> None:
    (folder / "p.yaml").write_text(PLAY)
    folder.chmod(0o777)
    with pytest.raises(InputError, match="writable by everyone"):
        read_play_file("p.yaml")


def test_a_play_below_such_a_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if all is as it should be once it has been read."""
    mine = tmp_path / "mine"
    mine.mkdir()
    tmp_path.chmod(0o777)
    (mine / "p.yaml").write_text(PLAY)

    def read_file(path: Path) -> bytes:
        tmp_path.chmod(0o755)
        return path.read_bytes()

    monkeypatch.setattr(play_files, "read_file", read_file)
    with pytest.raises(InputError, match="writable by everyone") as refused:
        read_play_file(str(mine / "p.yaml"))
    assert refused.value.hint == f"chmod go-w {tmp_path}"
