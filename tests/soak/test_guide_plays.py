"""The plays of the two guides, whole, on four practice hosts. `make soak` only: real packages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ipexctl.lab import LabSpec
from tests.conftest import MakeLab

pytestmark = pytest.mark.lab
REPO = Path(__file__).parents[2]


@pytest.mark.timeout(1800)
def test_the_guides_plays_train_on_all_hosts_together(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(LabSpec.plain(4, name="guides"))
    where = ("-f", str(lab.hostfile), "-F", str(lab.ssh_config))
    shutil.copytree(REPO / "examples", tmp_path / "examples")
    (tmp_path / "home").mkdir()
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    own = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": cache, "PYTHONPATH": str(REPO)}

    def play(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "ipexctl", "play", *words, *where],
            cwd=tmp_path, env={**os.environ, **own, "PIP_CONFIG_FILE": os.devnull},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    shown = play("accelerate-guide")
    assert len(re.findall(r"\| r\d\d \| world size 16, loss [\d.]+ -> [\d.]+", shown)) == 16
    assert "16 ranks on node[01-04]" in shown

    shown = play("trainer-guide", "-l", "node[01-02]")
    (first, last), *_ = re.findall(r"world size 4, loss ([\d.]+) -> ([\d.]+)", shown)
    assert float(last) < float(first)
