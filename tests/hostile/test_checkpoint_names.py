"""A checkpoint is laid out only where the run's own --checkpoints say that one may be."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ipexctl.remote.checkpoints import copy_requests
from ipexctl.remote.checkpoints.checkpoint_rules import matches_checkpoint_glob
from ipexctl.remote.checkpoints.copy_folder import CopyFolder
from ipexctl.remote.failure import Failure
from tests.run.test_ps_local import Here

RUN = "20261127-100000-abcdef"
EVIL = b"raise SystemExit('evil')\n"
FITS = [
    ("out/checkpoint-1", "out/checkpoint-*"), ("last.ckpt", "*.ckpt"), ("a/b/c-1", "**/c-*"),
    ("c-1", "**/c-*"), (".kept/c-1", ".kept/*"), ("out/c-1", "./out/*/"), ("a/b", "**"),
]  # fmt: skip
FITS_NOT = [
    ("train.py", "out/checkpoint-*"), ("out/x/c-1", "out/c-*"), (".git/config", "**"),
    (".git", "*"), (".git/config", "*/config"), ("a/.git/config", "a/**"), ("out", "out/*"),
    ("out/c-1/x", "out/*"), ("../c-1", "**/c-*"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "pattern"), FITS)
def test_names_that_a_pattern_has(name: str, pattern: str) -> None:
    assert matches_checkpoint_glob(name, pattern)


@pytest.mark.parametrize(("name", "pattern"), FITS_NOT)
def test_names_that_a_pattern_has_not(name: str, pattern: str) -> None:
    assert not matches_checkpoint_glob(name, pattern)


class Call:
    def emit(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("name", "patterns"),
    [
        ("train.py", ["out/checkpoint-*"]), (".git/config", ["out/checkpoint-*"]),
        (".git/config", ["**"]), ("pkg/__init__.py", ["out/*", "*.ckpt"]), ("train.py", []),
        (".envrc", []), ("../train.py", ["**"]), ("{}/out/c", ["**"]), ("link/c-1", ["link/c-*"]),
    ],
)  # fmt: skip
def test_a_manifest_replaces_nothing_that_is_not_a_checkpoint(
    tmp_path: Path, name: str, patterns: list[str]
) -> None:
    work, copies = tmp_path / "work", CopyFolder(str(tmp_path / f"root/runs/{RUN}/copies/a"))
    for below in ("train.py", ".git/config", "pkg/__init__.py", ".envrc", "../train.py"):
        (work / below).parent.mkdir(parents=True, exist_ok=True)
        (work / below).write_text("mine")
    (tmp_path / "away").mkdir()
    (work / "link").symlink_to(tmp_path / "away")
    before = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    (tmp_path / f"root/runs/{RUN}").mkdir(parents=True)
    (tmp_path / "root").chmod(0o700)
    copies.make()
    sha = hashlib.sha256(EVIL).hexdigest()
    Path(copies.path(sha)).parent.mkdir(parents=True, exist_ok=True)
    Path(copies.path(sha)).write_bytes(EVIL)
    asked = {
        "root": str(tmp_path / "root"), "work": str(work), "name": name.format(tmp_path),
        "patterns": patterns, "files": [["", sha, len(EVIL), 0]], "keys": {},
        "givers": [{"run_id": RUN, "holder": "a"}],
    }  # fmt: skip
    with pytest.raises(Failure):
        copy_requests.op_lay_out(Call(), **asked)
    for path, text in before.items():
        assert path.read_text() == text
    assert list((tmp_path / "away").iterdir()) == []


@pytest.mark.parametrize("name", ["train.py", ".git/config", "pkg/__init__.py"])
def test_run_resume_lays_out_no_such_checkpoint(tmp_path: Path, name: str) -> None:
    """One host of the earlier run has a manifest that it should not have."""
    here = Here(tmp_path)
    text = "import os, time, torch, pkg\nprint('mine', pkg.own)\ntime.sleep(2)\n"
    text += "if os.environ['RANK'] == '0':\n"
    text += "    os.makedirs('out/checkpoint-1', exist_ok=True)\n"
    text += "    open('out/checkpoint-1/model.pt', 'wb').write(b'w' * 100)\n"
    (here.code / "train.py").write_text(text)
    (here.code / "pkg").mkdir()
    (here.code / "pkg/__init__.py").write_text("own = 'own'\n")
    words = ("--checkpoints", "out/checkpoint-*", "--force", "-n", "2")
    first = here.call("run", *words, "train.py")
    assert first.returncode == 0, first.stderr
    (copies,) = Path(here.env["HOME"]).glob(".ipexctl/runs/*/copies/*")
    (manifest,) = (path for path in copies.rglob("*.json") if path.name != "pending.json")
    sha = next(iter(json.loads(manifest.read_text())["parts"].values()))["sha"]
    blob = Path(CopyFolder(str(copies)).path(sha))
    assert "out/checkpoint-1" in manifest.read_text()
    part = json.loads(blob.read_text()) | {"name": name}
    sha = hashlib.sha256(json.dumps(part).encode()).hexdigest()
    moved = Path(CopyFolder(str(copies)).path(sha))
    moved.parent.mkdir(parents=True, exist_ok=True)
    moved.write_text(json.dumps(part))
    forged = json.loads(manifest.read_text()) | {"name": name}
    for row in forged["parts"].values():
        row["sha"], row["list"] = sha, moved.stat().st_size
    manifest.write_text(json.dumps(forged))
    run = copies.parent.parent.name
    for more in ((), words[:2]):
        done = here.call("run", "--resume", run, *more, "--force", "-n", "2", "train.py")
        assert done.returncode != 0
        assert done.slug == "checkpoint-name", done.stderr
        for copy in Path(here.env["HOME"]).glob(f".ipexctl/runs/*/work/{name}"):
            assert copy.is_file(), copy
            assert b"www" not in copy.read_bytes()
