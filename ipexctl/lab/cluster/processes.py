"""Tools that a lab runs, with their own words as the error, and waiting for what they do."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import ipexctl
from ipexctl.errors import HostFailed
from ipexctl.lab.cluster import config_text

ENV = {"PATH": config_text.PATH, "LANG": "C.UTF-8"}
# for programs of Python that import ipexctl
PYTHON_ENV = {**ENV, "PYTHONPATH": str(Path(ipexctl.__file__).parent.parent)}


def run(argv: Sequence[str], given: str = "", *, what: str = "") -> str:
    """What the program prints to stdout. Raises HostFailed; `what` is said of the failure."""
    done = subprocess.run(argv, input=given, env=ENV, capture_output=True, text=True)
    if done.returncode:
        words = (done.stderr + done.stdout).strip() or f"exit {done.returncode}"
        raise HostFailed(
            what or f"{argv[0]}: {words}", why=words if what else "", slug="lab-tool-failed"
        )
    return done.stdout


def pids() -> list[int]:
    """Every process that this machine shows."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def sshd_path() -> str:
    return shutil.which("sshd", path=config_text.PATH) or "/usr/sbin/sshd"


def wait_until(condition: Callable[[], object], seconds: float = 20, pause: float = 0.005) -> bool:
    """False if the condition is not met in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True
