"""docs/notebook.md in a real kernel: a notebook starts and reads a run on two hosts.

`make soak` only: it fetches Jupyter's packages.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ipexctl.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]
REPO = Path(__file__).parents[2]
PACKAGES = ("nbclient", "ipykernel", "pandas")
EXECUTE = """\
import json, sys, nbformat
from nbclient import NotebookClient
cells = [nbformat.v4.new_code_cell(text) for text in json.load(sys.stdin)]
book = nbformat.v4.new_notebook(cells=cells)
NotebookClient(book, timeout=300, allow_errors=True).execute()
print(nbformat.writes(book))
"""
SCRIPT = """\
import sys, time
for step in range(1, int(sys.argv[1]) + 1):
    print(f"step {step}/{sys.argv[1]} loss {1 / step:.3f} <script>", flush=True)
    time.sleep(0.2)
"""
SHOWN_AGAIN = """\
import time
from IPython.display import clear_output, display
run = cluster.start("train.py", n=2, args=("40",))
while not run.over:
    clear_output(wait=True)
    display(run)
    time.sleep(1)"""
INTERRUPTED = """\
import os, signal, threading
long = cluster.start("train.py", n=2, args=("900",))
threading.Timer(4, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
long.wait()"""
CELLS = (
    "from ipexctl.api import Cluster\ncluster = Cluster.from_settings()",
    "%%writefile train.py\n" + SCRIPT,
    SHOWN_AGAIN,
    "run",
    "import pandas\npandas.DataFrame(run.metrics).query('rank == 0').step.max()",
    "run.why()",
    "import asyncio\nawait asyncio.to_thread(run.wait)",
    INTERRUPTED,
    "long.state, long.stop(5)",
    "run.logs(rank=9)",
    "cluster.runs(every=True)",
)


@pytest.fixture
def jupyter(tmp_path: Path) -> Path:
    """A Python with Jupyter and this ipexctl."""
    uv, python = REPO / ".venv/bin/uv", tmp_path / "venv/bin/python"
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, tmp_path / "venv"], check=True)
    install = [uv, "pip", "install", "-q", "--python", python, *PACKAGES, "-e", REPO]
    subprocess.run(install, check=True)
    return python


def shown(cell: dict[str, Any], kind: str) -> str:
    """What a cell has displayed as text/plain or text/html; its last output."""
    found = [o for o in cell["outputs"] if kind in o.get("data", {})]
    return "".join(found[-1]["data"][kind]) if found else ""


def test_the_page_works_in_a_kernel(installed_lab: Lab, jupyter: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    lab = installed_lab
    names = ("node01", "node02")
    ipexctl = [jupyter, "-m", "ipexctl"]
    init = [*ipexctl, "init", "-F", lab.ssh_config, "--no-probe", *names]
    subprocess.run(init, cwd=folder, check=True)
    done = subprocess.run(
        [jupyter, "-c", EXECUTE], cwd=folder, check=True, text=True, stdout=subprocess.PIPE,
        input=json.dumps(CELLS),
    )  # fmt: skip
    cells = json.loads(done.stdout)["cells"]
    errors = [o for cell in cells for o in cell["outputs"] if o["output_type"] == "error"]
    assert [error["ename"] for error in errors] == ["KeyboardInterrupt", "InputError"]  # of rank 9
    assert any("try: ipexctl logs" in line for line in errors[1]["traceback"])
    assert "running, 2 ranks on node[01-02]" in shown(cells[2], "text/html")
    assert len([o for o in cells[2]["outputs"] if "data" in o]) == 1, "one table that changes"
    assert "done, 2 ranks on node[01-02]" in shown(cells[3], "text/html")
    assert "40 of 40" in shown(cells[3], "text/html")
    assert shown(cells[4], "text/plain").endswith("40)") or shown(cells[4], "text/plain") == "40"
    assert shown(cells[5], "text/plain").startswith("done, and was not stalled")
    assert shown(cells[6], "text/plain") == "0"
    assert shown(cells[8], "text/plain") == "('running', 'stopped')"
    assert "<script>" not in "".join(shown(cell, "text/html") for cell in cells)
