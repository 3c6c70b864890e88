"""Scripts that leave their process group as it is end well, half of them on busy CPUs. 300 runs.

`IPEXCTL_SOAK_EXITS` sets another number. `make soak` only.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.lab import LabSpec
from tests.practice_hosts import start_lab

pytestmark = pytest.mark.lab
REPO = Path(__file__).parents[2]
HERE = Path(__file__).parent / "exits"
SHAPES = sorted(path.name for path in HERE.glob("*.py"))
RUNS = int(os.environ.get("IPEXCTL_SOAK_EXITS", "300"))


class Bench:
    def __init__(self, folder: Path, where: list[str]) -> None:
        self.folder, self.where = folder, where

    def ipexctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ipexctl", words[0], *self.where, *words[1:]],
            cwd=self.folder, env={**os.environ, "PYTHONPATH": str(REPO)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def bench(lab_root, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    lab = start_lab(LabSpec.plain(2, name="exits"), lab_root)
    try:
        folder = tmp_path_factory.mktemp("exits") / "project"
        shutil.copytree(HERE, folder)
        (folder / "requirements.txt").write_text("accelerate\ntransformers\n")
        made = Bench(folder, ["-f", str(lab.hostfile), "-F", str(lab.ssh_config)])
        done = made.ipexctl("install", "--stack", "stock", "-r", "requirements.txt", "-y")
        assert done.returncode == 0, done.stdout + done.stderr
        yield made
    finally:
        lab.down()


@pytest.fixture(params=["idle", "busy"])
def load(request: pytest.FixtureRequest) -> Iterator[None]:
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(2 if request.param == "busy" else 0)
    ]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("script", SHAPES)
def test_a_script_without_an_end_of_its_group_ends_well(
    bench: Bench, load: None, script: str
) -> None:
    for number in range(max(1, RUNS // 2 // len(SHAPES))):
        look = ["--no-inspect"] if number % 4 == 3 else []
        done = bench.ipexctl("run", "--json", *look, "-n", "2", script)
        assert done.stdout, done.stderr
        events = [json.loads(line) for line in done.stdout.splitlines()]
        last = [e for e in events if e["event"] == "line" and e["text"] == "last line"]
        found = (done.returncode, events[-1]["aborted_at_exit"], len(last))
        assert found == (0, [], 2), done.stdout[-4000:]
