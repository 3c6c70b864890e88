"""Disk on practice hosts after many runs of one project: at most twice the project, and what the
runs wrote. Its copy is moved from run to run, until a run of another project removes it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ipexctl.base.sizes import format_bytes
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


def kept_checkpoints(lab: Lab) -> int:
    kept = lab.run_in("node01", ["sh", "-c", "ls ~trainer/.ipexctl/runs/*/work/checkpoint.pt"])
    return len(kept.stdout.split())


def fill(folder: Path, megabytes: int) -> int:
    """Three quarters in ten large files, the rest in files of 50 kB. Returns what it takes."""
    (folder / "small").mkdir()
    for i in range(10):
        (folder / f"large{i}").write_bytes(os.urandom(megabytes * 75_000))
    for i in range(megabytes * 5):
        (folder / "small" / f"{i}").write_bytes(os.urandom(50_000))
    (folder / "train.py").write_text(SCRIPT)
    return sum(p.stat().st_blocks * 512 for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize(
    ("megabytes", "runs"), [(60, 4), pytest.param(200, 20, marks=pytest.mark.soak)]
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

    def run(script: Path) -> list[str]:
        done = shop.ipexctl("run", *files, "-n", "2", "--json", "-y", str(script))
        assert done.code == 0, done.out + done.err
        events = [json.loads(line) for line in done.out.splitlines()]
        return [e["text"] for e in events if e["event"] == "note" and "pruned" in e["text"]]

    def grown() -> dict[str, int]:
        return {name: used(lab, name) - before[name] for name in lab.hosts}

    notes = [note for _ in range(runs) for note in run(project / "train.py")]
    with_copy = grown()
    print(f"{runs} runs of {megabytes} MB: {with_copy}; {notes}")
    written = runs * (WRITTEN + SMALL)
    assert all(n <= 2 * size + written for n in with_copy.values()), with_copy
    assert kept_checkpoints(lab) == runs

    other = shop.work / "other"
    other.mkdir()
    (other / "other.py").write_text("print('another project')\n")
    (note,) = run(other / "other.py")
    print(f"a run of another project: {grown()}; {note}")
    assert 2 * size >= LARGE  # less than that is removed without a word
    assert f"2 copies of projects in old runs ({format_bytes(2 * size)})" in note
    assert all(n <= size + written + SMALL for n in grown().values()), grown()
    assert kept_checkpoints(lab) == runs
