"""The commit of a folder is read without starting git, which could run programs of that folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ipexctl.local.project_lock import git_commit

NAMED = ("-c", "user.name=ann", "-c", "user.email=ann@desk")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *NAMED, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_a_branch_packed_refs_a_detached_head_and_a_linked_work_tree(tmp_path: Path) -> None:
    top = tmp_path / "project"
    (top / "part").mkdir(parents=True)
    git(top, "init", "-q")
    assert git_commit(top) == ""
    git(top, "commit", "-q", "--allow-empty", "-m", "one")
    commit = git(top, "rev-parse", "HEAD")
    assert git_commit(top) == git_commit(top / "part") == commit
    git(top, "pack-refs", "--all")
    assert git_commit(top) == commit
    git(top, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    assert git_commit(tmp_path / "linked") == commit
    git(top, "checkout", "-q", "--detach")
    assert git_commit(top) == commit


def test_nothing_but_a_commit_is_read(tmp_path: Path) -> None:
    assert git_commit(tmp_path) == ""
    (tmp_path / "secret").write_text("geheim")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: ../secret\n")
    assert git_commit(tmp_path) == ""
