"""What a run records of the git work tree of its project: real git, in a real folder."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ipexctl.base.secret_mask import SecretMask
from ipexctl.project import git_state
from ipexctl.project.git_state import MOST_BYTES, GitReader
from tests.cli import ipexctl

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="needs git")
WHO = ("-c", "user.name=ann", "-c", "user.email=ann@desk", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ("git", *WHO, *words), cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def wait_for_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_state, "LONGEST_WAIT", 60)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project in a folder of a repository."""
    folder = tmp_path / "repository/bert"
    folder.mkdir(parents=True)
    for name in ("train.py", "private.py", "gone.py"):
        (folder / name).write_text("lr = 1\n")
    git(folder.parent, "init", "-q", "-b", "fast")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_changes_of_files_that_are_sent(project: Path) -> None:
    (project / "train.py").write_text('lr = 2\nAPI_KEY = "sk-very-secret"\n')
    (project / "private.py").write_text("not sent\n")
    (project / "gone.py").unlink()
    (project / "new").mkdir()
    (project / "new/data.py").write_text("x = 1\n")
    (project.parent / "outside.py").write_text("x = 1\n")
    sent = ["train.py", "new/data.py"]
    state = GitReader(project, sent, SecretMask()).state()
    assert state is not None
    assert (state.commit, state.branch) == (git(project, "rev-parse", "HEAD"), "fast")
    assert sorted(state.changed) == [
        ("changed", "train.py"),
        ("deleted", "gone.py"),
        ("not in git", "new/"),
    ]
    assert "-lr = 1\n+lr = 2" in state.diff and "+++ b/train.py" in state.diff
    assert "very-secret" not in state.diff and "private" not in state.diff


def test_a_large_change_is_cut(project: Path) -> None:
    (project / "train.py").write_text("# a line of it\n" * 10_000)
    state = GitReader(project, ["train.py"], SecretMask()).state()
    assert state and state.diff.endswith("\n(cut at 64,000 bytes)")
    assert len(state.diff) < MOST_BYTES + 100


def _name_programs(project: Path, program: str) -> None:
    git(project, "config", "core.fsmonitor", program)
    for name in ("diff.external", "diff.own.textconv", "diff.own.command"):
        git(project, "config", name, program)
    (project / ".gitattributes").write_text("*.py diff=own\n")


def _filter(project: Path, program: str) -> None:
    git(project, "config", "filter.own.clean", program)
    (project.parent / ".git/info/attributes").write_text("*.py filter=own\n")


def _filter_process(project: Path, program: str) -> None:
    git(project, "config", "filter.own.process", program)
    (project / ".gitattributes").write_text("*.py filter=own\n")


def _filter_of_an_included_file(project: Path, program: str) -> None:
    (project / "extra").write_text(f'[filter "own"]\nclean = "{program}"\n')
    git(project, "config", "includeIf.onbranch:fast.path", "../bert/extra")
    (project / ".gitattributes").write_text("*.py filter=own\n")


def _filter_of_a_work_tree(project: Path, program: str) -> None:
    git(project, "config", "extensions.worktreeConfig", "true")
    git(project, "config", "--worktree", "filter.own.clean", program)
    (project / ".gitattributes").write_text("*.py filter=own\n")


def _filter_of_a_folder_elsewhere(project: Path, program: str) -> None:
    _filter(project, program)
    (project.parent / ".git").rename(project.parent.parent / "elsewhere")
    (project.parent / ".git").write_text("gitdir: ../elsewhere\n")


def _hook(project: Path, program: str) -> None:
    hook = project.parent / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{program}\n")
    hook.chmod(0o755)
    os.utime(project / "private.py", (1, 1))  # the index has another time


def _missing_object(project: Path, program: str) -> None:
    """A clone without some objects, which git fetches when they are needed."""
    missing = git(project, "rev-parse", "HEAD:bert/train.py")
    (project.parent / ".git/objects" / missing[:2] / missing[2:]).unlink()
    git(project, "config", "core.repositoryFormatVersion", "1")
    for name, value in (
        ("extensions.partialClone", "origin"), ("remote.origin.promisor", "true"),
        ("remote.origin.url", "ssh://nowhere/project"), ("core.sshCommand", program),
    ):  # fmt: skip
        git(project, "config", name, value)


def _submodule(project: Path, program: str) -> None:
    """A repository in the repository, whose difference the user's settings want to see."""
    inner = project / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "data.py").write_text("x = 1\n")
    git(inner, "add", ".")
    git(inner, "commit", "-q", "-m", "first")
    git(project, "add", "inner")
    git(project, "commit", "-q", "-m", "second")
    (inner / "data.py").write_text("x = 2\n")
    git(inner, "commit", "-q", "-a", "-m", "second")
    git(inner, "config", "filter.own.clean", program)
    for name in ("diff.own.textconv", "core.fsmonitor"):
        git(inner, "config", name, program)
    (inner / ".gitattributes").write_text("*.py filter=own diff=own\n")
    (inner / "data.py").write_text("x = 3\n")


@pytest.mark.parametrize(
    "arrange",
    [
        _name_programs, _filter, _filter_process, _filter_of_an_included_file,
        _filter_of_a_work_tree, _filter_of_a_folder_elsewhere, _hook, _missing_object, _submodule,
    ],
)  # fmt: skip
def test_programs_of_the_repository_are_not_run(
    project: Path, arrange: Callable[[Path, str], None]
) -> None:
    ran, program = project.parent.parent / "ran", project.parent.parent / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n[ $# -gt 0 ] || cat\n")  # a filter has no words
    program.chmod(0o755)
    own = project.parent.parent / "settings of the user"
    own.write_text("[diff]\nsubmodule = diff\n")
    arrange(project, str(program))
    (project / "train.py").write_text("lr = 2\n")
    ran.unlink(missing_ok=True)  # the git of this test may have run it
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", str(own))
        state = GitReader(project, ["train.py", "inner"], SecretMask()).state()
        assert not ran.exists()
        assert state and state.commit == git(project, "rev-parse", "HEAD")
        assert ("changed", "train.py") in state.changed
        assert arrange is _missing_object or "+lr = 2" in state.diff
        git(project, "-c", "core.fsmonitor=false", "status")  # git obeys what is ignored here
        with suppress(subprocess.CalledProcessError):
            git(project, "diff", "HEAD")
        assert ran.exists()


def test_a_folder_in_the_form_of_a_repository_is_not_one(project: Path) -> None:
    """git takes the current folder for a bare repository if it has these files."""
    ran = project.parent / "ran"
    top = project.parent / "unpacked"
    shutil.copytree(project.parent / ".git", top)
    for name, value in (
        ("core.bare", "false"), ("core.worktree", str(top)),
        ("filter.own.clean", f"touch {ran}; cat"),
    ):  # fmt: skip
        git(project.parent, "config", "--file", str(top / "config"), name, value)
    (top / "bert").mkdir()
    (top / "bert/train.py").write_text("lr = 2\n")
    (top / ".gitattributes").write_text("*.py filter=own\n")
    (project.parent / ".git").rename(project.parent / "no longer")
    assert GitReader(top, ["bert/train.py"], SecretMask()).state() is None
    assert not ran.exists()
    git(top, "status")  # git obeys what is ignored here
    assert ran.exists()


def test_a_program_of_the_project_is_not_taken_for_git(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = project.parent / "ran"
    (project / "git").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (project / "git").chmod(0o755)
    monkeypatch.chdir(project)
    for path in ("", ".", f":{os.environ['PATH']}"):
        monkeypatch.setenv("PATH", path)
        assert GitReader(project, ["train.py"], SecretMask()).state() is None or path.count(":")
    assert not ran.exists()


def test_what_the_settings_say_of_files_counts(project: Path) -> None:
    """Line ends, the executable bit, what is ignored, and filters that the user has."""
    top = project.parent
    (top / ".git/info/exclude").write_text("left.py\n")
    (project / "left.py").write_text("not in git\n")
    git(project, "config", "core.fileMode", "false")
    git(project, "config", "core.autocrlf", "input")
    (project / "private.py").chmod(0o755)
    (project / "gone.py").write_bytes(b"lr = 1\r\n")
    (project / ".gitattributes").write_text("train.py filter=mine\n")
    (project / "train.py").write_text("lr = 1 # a comment\n")
    own = top / "settings of the user"
    own.write_text('[filter "mine"]\nclean = sed "s/ #.*//"\n[core]\nexcludesFile = ""\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", str(own))
        git(project, "add", ".gitattributes", "gone.py", "train.py")
        git(project, "commit", "-q", "-m", "second")
        sent = ["train.py", "private.py", "gone.py", "left.py"]
        for path in sent:
            os.utime(project / path, (1, 1))  # so that git reads them
        state = GitReader(project, sent, SecretMask()).state()
    assert state and state.changed == ()


@pytest.mark.parametrize("options", [(), ("--object-format=sha256",), ("--ref-format=reftable",)])
def test_a_linked_work_tree(tmp_path: Path, options: tuple[str, ...]) -> None:
    top, linked = tmp_path / "top", tmp_path / "linked"
    try:
        git(tmp_path, "init", "-q", *options, str(top))
    except subprocess.CalledProcessError:
        pytest.skip("this git is older")
    (top / "train.py").write_text("lr = 1\n")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "first")
    git(top, "pack-refs", "--all")
    git(top, "worktree", "add", "-q", "-b", "slow", str(linked))
    (linked / "train.py").write_text("lr = 2\n")
    git(linked, "commit", "-q", "-a", "-m", "second")
    (linked / "train.py").write_text("lr = 3\n")
    diff = ""
    for folder, branch in ((top, git(top, "branch", "--show-current")), (linked, "slow")):
        state = GitReader(folder, ["train.py"], SecretMask()).state()
        assert state and state.commit == git(folder, "rev-parse", "HEAD")
        assert state.branch == branch
        assert state.changed == ((("changed", "train.py"),) if folder == linked else ())
        diff += state.diff
    assert "-lr = 2\n+lr = 3" in diff


def _pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _huge(path: Path) -> None:
    with path.open("ab") as file:
        file.truncate(100 << 30)


@pytest.mark.parametrize(
    ("name", "put"),
    [
        (".git", _pipe), (".git", _huge),
        (".git", lambda path: path.symlink_to("/dev/zero")),
        (".git", lambda path: path.symlink_to(".git")),
        (".git", lambda path: path.write_text("gitdir: .git\n")),
        (".git", lambda path: path.write_bytes(b"gitdir: a\0b\n")),
        (".git", lambda path: path.write_text("gitdir: " + "a/" * 5000)),
        (".git/commondir", lambda path: path.write_bytes(b"\0")), (".git/commondir", _pipe),
        (".git/HEAD", _pipe), (".git/HEAD", _huge), (".git/config", _pipe),
        (".git/config", _huge),
        (".git/HEAD", lambda path: path.write_bytes(b"ref: refs/heads/../../../ref\n")),
        (".git/HEAD", lambda path: path.write_bytes(b"ref: refs/heads/a\x1b[31mb\n")),
        (".git/refs/heads/fast", lambda path: path.write_text("ref: refs/heads/fast\n")),
    ],
)  # fmt: skip
def test_what_no_git_writes_is_no_repository(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str, put: Callable[[Path], None]
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)  # else a traceback is printed
    (project.parent / "ref").write_text("a" * 40 + "\n")
    if name == ".git":
        shutil.rmtree(project.parent / ".git")
    put(project.parent / name)
    reader = GitReader(project, ["train.py"], SecretMask())
    assert reader.state() is None
    reader._thread.join(60)
    assert (raised, reader._thread.is_alive()) == ([], False)


def _index_of(project: Path, *paths: str) -> None:
    """Write an index with any paths, as no git does."""
    blob = bytes.fromhex(git(project, "rev-parse", "HEAD:bert/train.py"))
    data = b"DIRC" + struct.pack(">II", 2, len(paths))
    for path in sorted(path.encode() for path in paths):
        entry = struct.pack(">10I", *[0] * 6, 0o100644, 0, 0, 0) + blob
        entry += struct.pack(">H", len(path)) + path
        data += entry + b"\0" * (8 - len(entry) % 8)
    (project.parent / ".git/index").write_bytes(data + hashlib.sha1(data).digest())


def test_paths_of_an_index_that_lead_out_of_the_project_show_no_file(project: Path) -> None:
    secret = project.parent.parent / "secret"
    secret.mkdir()
    (secret / "key").write_text("PRIVATE\n")
    (project / "link").symlink_to(secret)
    odd = ("../secret/key", str(secret / "key"), "bert/../../secret/key", "bert/link/key")
    _index_of(project, *odd, "bert/train.py")
    (project / "train.py").write_text("lr = 2\n")
    state = GitReader(project, ["train.py"], SecretMask()).state()
    assert state and ("changed", "train.py") in state.changed
    assert "+lr = 2" in state.diff and "PRIVATE" not in str(state)


def test_nothing_is_written_into_the_repository(project: Path) -> None:
    os.utime(project / "private.py", (1, 1))  # git would note this in its index
    (project / "train.py").write_text("lr = 2\n")
    before = {path: path.lstat() for path in (project.parent / ".git").rglob("*")}
    state = GitReader(project, ["train.py"], SecretMask()).state()
    assert state and "+lr = 2" in state.diff
    after = {path: path.lstat() for path in (project.parent / ".git").rglob("*")}
    assert [(p, s.st_mtime_ns, s.st_ino) for p, s in before.items()] == [
        (p, s.st_mtime_ns, s.st_ino) for p, s in after.items()
    ]


def test_a_git_that_waits_for_ever_is_ended(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(project / ".gitattributes")
    monkeypatch.setattr(git_state, "LONGEST_WAIT", 5)
    reader = GitReader(project, ["train.py"], SecretMask())
    state = reader.state()
    assert state and state.commit == git(project, "rev-parse", "HEAD")
    reader._thread.join(60)
    assert not reader._thread.is_alive()  # which waits for its git


def _hang(project: Path) -> None:
    """Have git wait for ever for the name of its branch."""
    os.mkfifo(project.parent / ".git/packed-refs")
    (project.parent / ".git/refs/heads/fast").unlink()


def _wait_for_git(reader: GitReader) -> subprocess.Popen[bytes]:
    end = time.monotonic() + 30
    while not reader._git and time.monotonic() < end:
        time.sleep(0.01)
    assert reader._git
    return reader._git


def test_a_git_whose_state_nobody_asks_for_is_ended_with_its_reader(project: Path) -> None:
    _hang(project)
    reader = GitReader(project, ["train.py"], SecretMask())
    started = _wait_for_git(reader)
    assert started.poll() is None
    reader.end()
    assert not reader._thread.is_alive() and started.returncode == -signal.SIGKILL
    assert reader.state() is None
    reader.end()


def test_a_run_that_does_not_start_leaves_no_git(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _hang(project)
    readers: list[GitReader] = []

    class Noted(GitReader):
        def __init__(self, *words: Any) -> None:
            super().__init__(*words)
            readers.append(self)
            _wait_for_git(self)

    monkeypatch.setattr(git_state, "GitReader", Noted)
    ended = ipexctl("run", "-H", "nowhere.invalid", "train.py", cwd=project)
    assert ended.returncode and "nowhere.invalid" in ended.stderr
    (reader,) = readers
    assert reader._git and reader._git.returncode == -signal.SIGKILL


def test_git_has_a_time_limit_of_its_own(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _hang(project)
    monkeypatch.setattr(git_state, "LONGEST", 0.5)
    reader = GitReader(project, ["train.py"], SecretMask())
    reader._thread.join(60)
    assert not reader._thread.is_alive() and reader.state() is None


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux")
def test_git_takes_no_more_memory_than_its_limit(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "\n" * 4_000_000
    (project / "train.py").write_text(lines)
    git(project, "commit", "-q", "-a", "-m", "lines")
    (project / "train.py").write_text(f"x{lines}x")
    for limit, word in ((git_state.MOST_MEMORY, "+x\n"), (100 << 20, "")):
        monkeypatch.setattr(git_state, "MOST_MEMORY", limit)
        state = GitReader(project, ["train.py"], SecretMask()).state()
        assert state and state.changed == (("changed", "train.py"),)
        assert word in state.diff and bool(word) == bool(state.diff)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="PYTHONSAFEPATH is of Python 3.11")
def test_a_filter_of_the_user_runs_no_module_of_the_project(project: Path) -> None:
    top, ran = project.parent, project.parent.parent / "ran"
    (top / "strips.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    (project / ".gitattributes").write_text("train.py filter=mine\n")
    (project / "train.py").write_text("lr = 2\n")
    own = top.parent / "settings of the user"
    own.write_text(f'[filter "mine"]\nclean = "{sys.executable} -m strips"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", str(own))
        patch.delenv("PYTHONSAFEPATH", raising=False)
        assert GitReader(project, ["train.py"], SecretMask()).state()
        assert not ran.exists()
        git(project, "diff", "HEAD")  # so such a filter would find it
        assert ran.exists()


def test_without_a_commit_nothing_is_recorded(tmp_path: Path) -> None:
    assert GitReader(tmp_path, [], SecretMask()).state() is None
    git(tmp_path, "init", "-q")
    assert GitReader(tmp_path, [], SecretMask()).state() is None
