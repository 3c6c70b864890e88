"""What a run records of the git work tree of its project: real git, in a real folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ipexctl.base.secret_mask import SecretMask
from ipexctl.project.git_state import MOST_BYTES, GitReader

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="needs git")
WHO = ("-c", "user.name=ann", "-c", "user.email=ann@desk", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ("git", *WHO, *words), cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


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
    assert (state["commit"], state["branch"]) == (git(project, "rev-parse", "HEAD"), "fast")
    assert sorted(state["changed"]) == [
        ["changed", "train.py"],
        ["deleted", "gone.py"],
        ["not in git", "new/"],
    ]
    assert "-lr = 1\n+lr = 2" in state["diff"] and "+++ b/train.py" in state["diff"]
    assert "very-secret" not in state["diff"] and "private" not in state["diff"]


def test_a_large_change_is_cut(project: Path) -> None:
    (project / "train.py").write_text("# a line of it\n" * 10_000)
    state = GitReader(project, ["train.py"], SecretMask()).state()
    assert state and state["diff"].endswith("\n(cut at 64,000 bytes)")
    assert len(state["diff"]) < MOST_BYTES + 100


def test_programs_of_the_repository_are_not_run(project: Path) -> None:
    ran = project.parent / "ran"
    for name in ("core.fsmonitor", "diff.external", "diff.own.textconv"):
        git(project, "config", name, f"touch {ran}; cat")
    (project / ".gitattributes").write_text("*.py diff=own\n")
    (project / "train.py").write_text("lr = 2\n")
    ran.unlink(missing_ok=True)  # the git of this test has run the first one
    state = GitReader(project, ["train.py"], SecretMask()).state()
    assert state and "+lr = 2" in state["diff"] and not ran.exists()


def test_without_a_commit_nothing_is_recorded(tmp_path: Path) -> None:
    assert GitReader(tmp_path, [], SecretMask()).state() is None
    git(tmp_path, "init", "-q")
    assert GitReader(tmp_path, [], SecretMask()).state() is None
