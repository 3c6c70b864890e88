"""The gate itself, with targets that do nothing or leave something behind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

GATE = Path(__file__).parents[2] / ".ci" / "run"
TOOLS = (
    "bash", "cat", "chmod", "comm", "dirname", "env", "git", "make", "python3", "sed", "sh", "sort",
)  # fmt: skip
MAKEFILE = """\
setup:
\t@echo cat processes >bin/ps; echo echo lo UNKNOWN >bin/ip; chmod +x bin/ps bin/ip
test: setup
guard: setup
demo: setup
\t@echo '{left}' >>processes
"""


def gate(folder: Path, left: str) -> subprocess.CompletedProcess[str]:
    """The gate on a machine that has `ps` and `ip` only after `make setup`."""
    tools = folder / "bin"
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    (folder / ".ci").mkdir()
    shutil.copy(GATE, folder / ".ci" / "run")
    (folder / "Makefile").write_text(MAKEFILE.format(left=left))
    (folder / "processes").write_text("lab-host\n/sbin/init\n")  # of a lab that was there before
    argv = [str(folder / ".ci" / "run")]
    env = {"PATH": str(tools)}
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)


def test_the_gate_passes_on_a_bare_machine_though_foreign_things_come(tmp_path: Path) -> None:
    done = gate(tmp_path, "somebody elses daemon")
    assert (done.stderr, done.returncode) == ("", 0)
    assert "nothing left behind" in done.stdout


@pytest.mark.parametrize(
    "left",
    ["lab-switch infinity", "lab-host", "python -m ipexctl.lab.cluster.watchdog /labs/a 5 0"],
)
def test_the_gate_fails_and_names_what_a_practice_host_left(tmp_path: Path, left: str) -> None:
    done = gate(tmp_path, left)
    assert done.stderr == f"ci: something was left behind:\nprocess {left}\n"
    assert done.returncode == 1
