"""A project that was made to hang the machine of who runs it, or to fill its memory."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest

from ipexctl.errors import InputError
from ipexctl.install.requirement_files import extra_requirements
from ipexctl.local.project_lock import read_lock
from ipexctl.local.run_options import RunOptions
from ipexctl.project.files.project_files import Ignore
from ipexctl.project.project_folder import Walk
from ipexctl.project.send_agreed import answer_no, answer_yes
from ipexctl.project.send_project import Project, project_of, read_project
from ipexctl.run.run_script import read_script
from ipexctl.run.script_files.script_sources import _read_source


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(40 << 30)


ODD = {
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a pipe": os.mkfifo,
    "a file of 40 GB": sparse,
}


@pytest.fixture(params=ODD)
def odd(request, tmp_path):
    """Makes such a file; what reads it afterwards has 3 seconds and 100 MiB."""

    def make(name: str) -> Path:
        ODD[request.param](tmp_path / name)
        return tmp_path / name

    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield make
    assert time.monotonic() - began < 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


@pytest.mark.parametrize("name", [".gitignore", ".ipexctlignore"])
def test_an_ignore_file_that_is_none_is_refused(odd, name):
    path = odd(name)
    with pytest.raises(InputError) as caught:
        Walk(path.parent).run(Ignore())
    assert caught.value.slug == "ignore-file-unreadable"
    assert caught.value.what.startswith(f"cannot read {path}")


def test_a_requirements_file_that_is_none_is_refused(odd):
    path = odd("requirements.txt")
    with pytest.raises(InputError, match=f"cannot read {path}"):
        extra_requirements((path,), None)


def test_a_lock_that_is_none_is_refused(odd):
    path = odd("ipexctl.lock")
    with pytest.raises(InputError, match=f"cannot read {path}"):
        read_lock(path)


def test_python_files_that_are_none_say_nothing(odd):
    path = odd("x.py")
    assert _read_source(path) in (None, b"\0" * len(_read_source(path) or b""))


def test_a_plan_reads_no_file_that_would_be_sent(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text("")
    sparse(tmp_path / "model.bin")
    monkeypatch.chdir(tmp_path)
    options = RunOptions("train.py", confirm=answer_yes)
    began, notes = time.monotonic(), []
    snapshot = read_script(options).read_files(options, notes.append, contents=False)
    assert time.monotonic() - began < 5
    assert snapshot.holds("model.bin")
    assert any("a large folder" in note for note in notes)


def test_how_much_is_read_is_said_before_it_is_read(tmp_path):
    sparse(tmp_path / "model.bin")

    def stop(text: str) -> None:
        raise InterruptedError(text)

    with pytest.raises(InterruptedError, match="a large folder"):
        read_project(Project(tmp_path, git=True), answer_no, {}, stop)


# --- patterns ------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["a[b-!]c", "!", "[z-a]", "x[!]", "\\\\[", "a["])
def test_a_line_that_is_no_pattern_leaves_the_others_as_they_are(line):
    ignore = Ignore().with_folder("", f"{line}\n*.log\n", "")
    assert ignore("x.log")
    assert not ignore("train.py")
    assert ignore.why("x.log") == ("*.log in .gitignore:2", False)


def test_folders_within_folders_have_an_end(tmp_path):
    folder = tmp_path
    for _ in range(300):
        folder = folder / "d"
        folder.mkdir()
    with pytest.raises(InputError) as refused:
        Walk(tmp_path).run(Ignore())
    assert refused.value.slug == "folders-too-deep"


# --- a work tree of another user -----------------------------------------------------------------


def test_a_git_link_of_another_user_is_not_a_repository(tmp_path):
    if os.getuid():
        pytest.skip("needs root, to give a link away")
    (tmp_path / "mine").mkdir()
    (tmp_path / ".git").symlink_to("/usr")
    os.lchown(tmp_path / ".git", 65534, 65534)
    assert project_of(tmp_path / "mine", tmp_path / "mine").folder == tmp_path / "mine"


@pytest.mark.parametrize("given", [".git", "."])
def test_an_empty_git_folder_of_somebody_else_does_not_say_what_is_sent(tmp_path, given):
    """In /tmp, for example: with it all that lies there would go to the hosts."""
    if os.getuid():
        pytest.skip("needs root, to give a folder away")
    script = tmp_path / "mine"
    script.mkdir()
    (tmp_path / ".git").mkdir()
    assert project_of(script, script).folder == tmp_path
    os.chown(tmp_path / given, 65534, 65534)
    project = project_of(script, script)
    assert (project.folder, project.git) == (script, False)
    assert project.notes == (
        f"ignoring the git repository {tmp_path}: owned by nobody; only {script} is sent",
    )
