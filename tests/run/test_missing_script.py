"""A script that is not where it was looked for: the command with the one that was meant."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from ipexctl.base.typed_command import Typed
from ipexctl.errors import InputError
from ipexctl.local.run_options import RunOptions
from ipexctl.run.run_script import read_script


def hint_for(script: str) -> str:
    typed = Typed(("run", "-ppn", "1"), (script, "--lr", "1"))
    with pytest.raises(InputError) as e:
        read_script(RunOptions(script, ("--lr", "1"), typed=typed))
    assert e.value.slug in ("script-missing", "script-is-folder")
    return e.value.hint


@pytest.mark.parametrize(
    ("cwd", "typed", "meant"),
    [
        (".", "trian.py", "train.py"),
        (".", "train", "train.py"),
        (".", "trainer.py", "src/trainer.py"),  # not train.py, which is similar
        ("src", "train.py", "../train.py"),
        (".", "deep.py", "src/core/deep.py"),
        (".", "src/train.py", "train.py"),
        (".", "src", "src/trainer.py"),
    ],
)
def test_the_script_that_was_meant_is_offered_and_is_one(tmp_path, monkeypatch, cwd, typed, meant):
    for name in ("train.py", "needs.py", "src/trainer.py", "src/core/deep.py", ".hidden/deep.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    monkeypatch.chdir(tmp_path / cwd)
    (line,) = hint_for(typed).splitlines()
    words = shlex.split(line)
    assert words == ["ipexctl", "run", "-ppn", "1", meant, "--lr", "1"]
    read_script(RunOptions(words[4], ("--lr", "1"), typed=Typed(("run",), tuple(words[4:]))))


@pytest.mark.parametrize("typed", ["other.py", "twice.py"])
def test_no_command_is_offered_where_no_script_or_several_may_be_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    for folder in ("a", "b"):
        os.mkdir(tmp_path / folder)
        (tmp_path / folder / "twice.py").write_text("")
    (tmp_path / "model.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert hint_for(typed).splitlines() == ["# scripts there: model.py"]


@pytest.mark.parametrize("no_sync", [False, True])
@pytest.mark.parametrize("name", ["a\nb", "a\x1b[1mb", "a\u202eb"])
def test_a_folder_whose_name_no_host_may_answer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, no_sync: bool
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / name).mkdir()
    (tmp_path / name / "train.py").write_text("")
    monkeypatch.chdir(tmp_path / name)
    with pytest.raises(InputError) as e:
        read_script(RunOptions("train.py", no_sync=no_sync))
    assert e.value.slug == "folder-name-odd" and repr(name)[1:-1] in e.value.what


def test_a_project_may_have_such_a_name_where_hosts_do_not_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a\nb"
    folder.mkdir()
    (folder / "train.py").write_text("")
    monkeypatch.chdir(folder)
    assert read_script(RunOptions("train.py")).project.folder == folder
