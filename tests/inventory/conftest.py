"""A user at a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli import ipexctl

ROOT = Path(__file__).parents[2]


@dataclass
class Shell:
    """A user with a home and a project folder of their own."""

    home: Path
    folder: Path

    def __call__(
        self, *args: str, stdin: int = subprocess.DEVNULL, **env: str
    ) -> subprocess.CompletedProcess[str]:
        place = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "NO_COLOR": "1",
            **env,
        }
        if stdin == subprocess.DEVNULL:
            return ipexctl(*args, cwd=self.folder, env=place)
        return subprocess.run(
            [sys.executable, "-m", "ipexctl", *args],
            cwd=self.folder,
            env={"PYTHONPATH": str(ROOT), **place},
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    return Shell(tmp_path / "home", tmp_path / "project")
