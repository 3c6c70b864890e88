"""All examples on three practice hosts, and on this machine without a hostfile.

Prints what each of them ended with. `make soak` only: it fetches real packages.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from ipexctl.lab import LabSpec
from tests.conftest import MakeLab
from tests.examples import losses

pytestmark = pytest.mark.lab
REPO = Path(__file__).parents[2]
SECONDS = 120  # the longest time of an example
NAMES = (
    "text_classification", "question_answering", "lightning_fabric", "fsdp2_checkpoint", "lora_sft",
    "resnet50_bf16", "bert_int8", "ipex_optimizer_state", "distilbert_bf16", "lennard_jones",
)  # fmt: skip
HEAD = ("example", "hosts", "ranks", "world size", "first loss", "last loss", "seconds")


@dataclass(frozen=True)
class Project:
    """A copy of the examples, and where they run: on these hosts, or without any here."""

    folder: Path
    where: tuple[str, ...]
    home: Path

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
        own = {"HOME": str(self.home), "XDG_CACHE_HOME": cache, "PYTHONPATH": str(REPO)}
        return subprocess.run(
            [sys.executable, "-m", "ipexctl", words[0], *self.where, *words[1:]],
            cwd=self.folder, env={**os.environ, **own, "PIP_CONFIG_FILE": os.devnull},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("hosts", [3, 0], ids=["three-hosts", "this-machine"])
def test_every_example_ends_with_a_lower_loss(
    make_lab: MakeLab, tmp_path: Path, capsys: pytest.CaptureFixture[str], hosts: int
) -> None:
    where: tuple[str, ...] = ()
    if hosts:
        lab = make_lab(LabSpec.plain(hosts, name="examples"))
        where = ("-f", str(lab.hostfile), "-F", str(lab.ssh_config))
    (tmp_path / "home").mkdir()
    shutil.copytree(REPO / "examples", tmp_path / "project" / "examples")
    project = Project(tmp_path / "project", where, tmp_path / "home")
    installed = project.call("install", "-r", "examples/requirements-int8.txt", "-y")
    assert installed.returncode == 0, installed.stdout + installed.stderr

    rows, wrong = [HEAD], []
    for name in NAMES:
        row, complaint = run(project, name, hosts)
        rows.append(row)
        wrong += [complaint] * bool(complaint)
    with capsys.disabled():
        print()
        for row in rows:
            print(
                "  ".join(f"{cell:<20}" if i == 0 else f"{cell:>10}" for i, cell in enumerate(row))
            )
    assert not wrong


def run(project: Project, name: str, hosts: int) -> tuple[tuple[str, ...], str]:
    """A row of the table, and what is wrong."""
    ranks = 2 * (hosts or 1)
    count = ("-ppn", "2") if hosts else ("-n", "2")
    started = time.monotonic()
    done = project.call("run", "--json", "--require-together", *count, f"examples/{name}.py")
    seconds = time.monotonic() - started
    events = [json.loads(line) for line in done.stdout.splitlines()]
    found = losses(event["text"] for event in events if event["event"] == "line")
    good = len(found) == ranks and len(set(found)) == 1 and found[0].world == ranks
    good = good and found[0].last < found[0].first and done.returncode == 0 and seconds < SECONDS
    end = found[0] if found else None
    cells = (end.world, f"{end.first:.4f}", f"{end.last:.4f}") if end else ("-", "-", "-")
    row = (name, str(hosts or "-"), str(ranks), *map(str, cells), f"{seconds:.0f}")
    return row, "" if good else f"{name}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
