"""Disk on practice hosts after many runs of one project: at most twice the project, and what the
runs wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ipexctl.lab import Lab, LabSpec
from ipexctl.remove.prune import LARGE
from tests.conftest import MakeLab
from tests.install.conftest import Shop
from tests.install.test_install_lab import over_ssh, with_real_uv

WRITTEN = 1_000_000  # bytes that each run writes
SCRIPT = f"open('checkpoint.pt', 'wb').write(bytes({WRITTEN}))\n"
SMALL = 100_000  # bytes per run for its folder, programs and logs


def used(lab: Lab, host: str) -> int:
    du = lab.run_in(host, ["sh", "-c", "du -s --block-size=1 ~trainer/.ipexctl"])
    return int(du.stdout.split()[0])


def fill(folder: Path, megabytes: int) -> int:
    """Three quarters in ten large files, the rest in files of 50 kB. Returns what it takes."""
    (folder / "small").mkdir()
    for i in range(10):
        (folder / f"large{i}").write_bytes(os.urandom(megabytes * 75_000))
    for i in range(megabytes * 5):
        (folder / "small" / f"{i}").write_bytes(os.urandom(50_000))
    (folder / "train.py").write_text(SCRIPT)
    return sum(p.stat().st_blocks * 512 for p in folder.rglob("*"))


@pytest.mark.parametrize(
    ("megabytes", "runs"), [(20, 5), pytest.param(200, 20, marks=pytest.mark.soak)]
)
def test_runs_take_twice_the_project(
    full_rung: None, shop: Shop, make_lab: MakeLab, megabytes: int, runs: int
) -> None:
    with_real_uv(shop)
    lab = make_lab(LabSpec.plain(2, name=f"small{megabytes}"))
    installed = over_ssh(shop, lab)
    assert installed.code == 0, installed.err
    project = shop.work / "project"
    project.mkdir()
    size = fill(project, megabytes)
    before = {name: used(lab, name) for name in lab.hosts}
    files = ("-f", str(lab.hostfile), "-F", str(lab.ssh_config))
    notes: list[str] = []
    for _ in range(runs):
        done = shop.ipexctl("run", *files, "-n", "2", "--json", "-y", str(project / "train.py"))
        assert done.code == 0, done.out + done.err
        events = [json.loads(line) for line in done.out.splitlines()]
        notes += [e["text"] for e in events if e["event"] == "note" and "pruned" in e["text"]]
    grown = {name: used(lab, name) - before[name] for name in lab.hosts}
    print(f"{runs} runs of {megabytes} MB: {grown}; {notes[-1:]}")
    most = 2 * size + runs * (WRITTEN + SMALL)
    assert all(n <= most for n in grown.values()), grown
    if size > LARGE:  # less than that is removed without a word
        assert "copies of projects in old runs" in notes[-1]
    kept = lab.run_in("node01", ["sh", "-c", "ls ~trainer/.ipexctl/runs/*/work/checkpoint.pt"])
    assert len(kept.stdout.split()) == runs
