"""An argument that is a file of this machine and of no host is noted before ranks start; what the
script writes, what is sent, and what hosts have is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipexctl.base.typed_command import Typed
from ipexctl.common.folder_answers import PathsAbsent
from ipexctl.project.send_project import Project
from ipexctl.remote.project.synced_folders import op_find_absent
from ipexctl.run.local_arguments import (
    describe_local_argument,
    find_local_arguments,
    find_missing_argument,
    note_misspelt_files,
)
from ipexctl.run.run_script import Script


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "here.txt").touch()
    (tmp_path / "set.txt").touch()
    (tmp_path / "a set").mkdir()
    return Project(tmp_path / "project")


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ("--data TOP/set.txt", ["--data"]),
        ("--data=../set.txt", ["--data"]),
        ("TOP/set.txt --lr 1", [""]),
        # not there, sent, around the project, or written by the script
        ("--data TOP/none.txt", []),
        ("--data here.txt --more TOP/project/here.txt --top TOP --root / --up ..", []),
        ("--out TOP/set.txt --log_dir=../set.txt --save-to ../set.txt", []),
    ],
)
def test_which_arguments_are_files_of_this_machine_alone(project, tmp_path, args, found):
    words = args.replace("TOP", str(tmp_path)).split()
    assert [item.option for item in find_local_arguments(words, project)] == found


def _note(project: Project, args: list[str]) -> str:
    (item,) = find_local_arguments(args, project)
    return describe_local_argument(item, ["node01", "node02"], _script(project, args), DATA)


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        ("--data hree.txt", "--data here.txt"),
        ("--lr 0.1 --data=../sett.txt", "--lr 0.1 --data=../set.txt"),
        # there, another one, another number, or written by the script
        ("here.txt --data heat.txt --part part2.txt --out hree.txt --data there/hree.txt", ""),
    ],
)
def test_a_file_that_is_nearly_named_is_offered(project, args, meant):
    (project.folder / "part1.txt").touch()
    notes = [
        text.partition("; try: ")[2] for text in note_misspelt_files(_script(project, args.split()))
    ]
    assert notes == [f"ipexctl run -n 2 train.py {meant}"] * bool(meant)


DATA = "/home/ann/.ipexctl/data"


def _script(project: Project, args: list[str]) -> Script:
    typed = Typed(("run", "-n", "2"), ("train.py", *args))
    return Script(project, ("train.py", *args), typed=typed)


def test_the_note_has_the_commands_that_bring_it_to_the_hosts(project, tmp_path, monkeypatch):
    monkeypatch.chdir(project.folder)
    said = "train.py: --data {} is on this machine, but not on node[01-02]"
    way = "; if it is to be read there, try: {} && ipexctl run {}-n 2 train.py --data{}"
    note = _note(project, ["--data", "../set.txt"])
    assert note == said.format("../set.txt") + way.format(
        f"cp {tmp_path}/set.txt .", "", " set.txt"
    )
    note = _note(project, [f"--data={tmp_path}/a set"])
    assert note == said.format(f"{tmp_path}/a set") + way.format(
        f"ipexctl data push '{tmp_path}/a set' --as a-set",
        "--data a-set ",
        "=/home/ann/.ipexctl/data/a-set/current/files",
    )
    (project.folder / "set.txt").touch()  # never overwritten
    assert _note(project, ["--data", "../set.txt"]) == said.format("../set.txt")


@pytest.mark.parametrize(
    ("args", "said", "line"),
    [
        ("--data TOP/set.txt", "TOP/set.txt", "cp TOP/set.txt . && R --data set.txt"),
        ("--data=../set.txt", "../set.txt", "cp TOP/set.txt . && R --data=set.txt"),
        ("--data TOP/sets", "TOP/sets/a.bin",
         "ipexctl data push TOP/sets --as sets && R --data DATA/sets/current/files"),
        # another file is missing
        ("--data TOP/set.txt", "TOP/set.txt2", ""),
        ("--data TOP/sets", "TOP/sets2/a.bin", ""),
        ("--data here.txt", "here.txt", ""),
    ],
)  # fmt: skip
def test_a_rank_that_did_not_find_its_file_is_answered_with_a_line_that_brings_it(
    project, tmp_path, monkeypatch, args, said, line
):
    monkeypatch.chdir(project.folder)
    (tmp_path / "sets").mkdir()
    args, said = (text.replace("TOP", str(tmp_path)) for text in (args, said))
    words = [f"FileNotFoundError: [Errno 2] No such file or directory: '{said}'"]
    found = find_missing_argument(words, _script(project, args.split()), DATA)
    options = "--data sets " if "/sets" in args else ""
    line = line.replace("R ", f"ipexctl run {options}-n 2 train.py ")
    line = line.replace("DATA", DATA).replace("TOP", str(tmp_path))
    assert (found.fix if found else "") == line
    assert found is None or found.starts_again


def test_a_host_says_only_of_what_is_certain_that_it_is_absent(tmp_path):
    (tmp_path / "link").symlink_to("link")  # a loop cannot be followed
    paths = [str(tmp_path), str(tmp_path / "none"), str(tmp_path / "link"), "/proc/version/x"]
    assert op_find_absent(None, "~", paths) == PathsAbsent([1, 3])
