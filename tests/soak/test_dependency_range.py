"""The quick tests with the newest and with the oldest versions that pyproject.toml allows."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("resolution", ["highest", "lowest-direct"])
def test_quick_tests_pass_at_both_ends_of_the_range(resolution: str, tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "-q", REPO, tmp_path / "clone"], check=True)
    clone = tmp_path / "clone"
    uv, python = REPO / ".venv/bin/uv", clone / ".venv/bin/python"
    subprocess.run([uv, "venv", "-q", "--python", REPO / ".venv/bin/python", ".venv"], cwd=clone)
    install = [uv, "pip", "install", "-q", "--python", python, "--resolution", resolution]
    subprocess.run([*install, "-e", ".[dev]"], cwd=clone, check=True)
    quick = [python, "-m", "pytest", "-q", "-m", "pure or local", "-n", str(2 * os.cpu_count())]
    done = subprocess.run(quick, cwd=clone, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]
