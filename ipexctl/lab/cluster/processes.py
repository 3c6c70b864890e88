"""Run the tools that a lab needs, with their output as the error."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import ipexctl
from ipexctl.errors import HostFailed
from ipexctl.lab.cluster import config_text

ENV = {"PATH": config_text.PATH, "LANG": "C.UTF-8"}
# for Python programs that import ipexctl
PYTHON_ENV = {**ENV, "PYTHONPATH": str(Path(ipexctl.__file__).parent.parent)}


def run_tool(argv: Sequence[str], stdin: str = "", *, what: str = "") -> str:
    """Return what the program prints to stdout. Raises HostFailed with the message `what`."""
    result = subprocess.run(argv, input=stdin, env=ENV, capture_output=True, text=True)
    if result.returncode:
        words = (result.stderr + result.stdout).strip() or f"exit {result.returncode}"
        raise HostFailed(
            what or f"{argv[0]}: {words}", why=words if what else "", slug="lab-tool-failed"
        )
    return result.stdout


def sshd_path() -> str:
    return shutil.which("sshd", path=config_text.PATH) or "/usr/sbin/sshd"
