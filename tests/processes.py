"""Processes that tests started, or made others start."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from ipexctl.common.processes import stat_of
from ipexctl.common.waiting import wait_until


def gone(pid: int, seconds: float = 20.0) -> bool:
    """Whether it ends within that time. A dead one that nobody has waited for yet is gone."""
    return wait_until(lambda: stat_of(pid)[1][:1] in ([], ["Z"]), seconds, 0.02)


def listens(path: Path, seconds: float = 20.0) -> bool:
    """Whether a process takes connections there within that time: the name is there before."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket(socket.AF_UNIX) as trial:
            try:
                trial.connect(str(path))
                return True
            except OSError:
                time.sleep(0.01)
    return False


def interpreter(minor: int) -> str:
    """A real one, by its path: names in PATH may be shims that start another version."""
    places = [Path("/usr/bin"), Path("/usr/local/bin")]
    places += sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin"))
    for place in places:
        if (place / f"python3.{minor}").is_file():
            return str(place / f"python3.{minor}")
    pytest.skip(f"no python3.{minor} on this machine")
