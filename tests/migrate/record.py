"""Writes expected/ from what `migrate` prints today: python -m tests.migrate.record"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests.cli import ipexctl

HERE = Path(__file__).parent
CASES = sorted(p.name for p in (HERE / "cases").iterdir() if p.is_file())


def printed(folder: Path, name: str) -> str:
    """All that a user sees of one case: the report and the exit code."""
    report = ipexctl("migrate", name, cwd=folder)
    assert report.stderr == ""
    return f"{report.stdout}exit code {report.returncode}\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(HERE / "cases", Path(folder, "cases")))
        for case in CASES:
            (HERE / "expected" / f"{case}.txt").write_text(printed(copy, case), "utf-8")
