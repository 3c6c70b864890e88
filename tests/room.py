"""Room for the files of test runs: all tests take 7 GB, and a killed run leaves them there."""

from __future__ import annotations

import getpass
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

ENOUGH = 12 << 30  # 7 GB, and what checkpoints leave free
STARTS = 60.0  # seconds that a folder of a test run may be without its lock


def pytest_sessionstart(session: pytest.Session) -> None:
    """pytest takes the folder of a killed run for one in use, for three days."""
    if hasattr(session.config, "workerinput"):
        return
    root = Path(tempfile.gettempdir()) / f"pytest-of-{getpass.getuser()}"
    for folder in list_ended_runs(root)[:-1]:  # the last one may be looked at
        shutil.rmtree(folder, ignore_errors=True)


def list_ended_runs(root: Path) -> list[Path]:
    """Return the folders of test runs whose process is gone, from the oldest."""
    numbered = (f for f in root.glob("pytest-*") if f.name.removeprefix("pytest-").isdecimal())
    folders = sorted(numbered, key=lambda f: int(f.name.removeprefix("pytest-")))
    return [folder for folder in folders if is_ended(folder)]


def is_ended(folder: Path) -> bool:
    try:
        os.kill(int((folder / ".lock").read_text("ascii")), 0)  # also where there is no /proc
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    except (OSError, ValueError):
        return time.time() - folder.stat().st_mtime > STARTS
    return False


def say_full_disk() -> str:
    """Return the line to print below failures where the disk may have caused them, or ""."""
    where = tempfile.gettempdir()
    free = shutil.disk_usage(where).free
    if free >= ENOUGH:
        return ""
    return f"only {free / (1 << 30):.1f} GB free in {where}: tests may have failed for that"
