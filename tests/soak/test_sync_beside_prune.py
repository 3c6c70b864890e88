"""2,000 syncs of changing folders beside prunes with the tightest limits, on one root."""

from __future__ import annotations

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from ipexctl.project.files.project_files import PACKED
from ipexctl.remove.prune_limits import PruneLimits
from tests.files.test_space_limits import OP, fresh_agent, snapshot

pytestmark = pytest.mark.soak
SYNCS, WORKERS, FOLDERS = 2000, 3, 4
TIGHT = {**PruneLimits().for_host(""), "runs": 1, "days": 0, "copies": 0, "project_mb": 0}


def work_on(top: Path, root: Path, worker: int, syncs: int) -> int:
    """Folders with unlike names: each one supersedes none of the others."""
    chance, bad = random.Random(worker), 0
    folders = [top / f"w{worker}-{n}" for n in range(FOLDERS)]
    for folder in folders:
        folder.mkdir()
        for i in range(8):
            (folder / f"{folder.name}-{i}").write_bytes(chance.randbytes(300))
        (folder / "large").write_bytes(chance.randbytes(PACKED + 1))
    agent = fresh_agent()
    for number in range(syncs):
        folder = chance.choice(folders)
        (folder / f"{folder.name}-{chance.randrange(8)}").write_bytes(chance.randbytes(300))
        sent, run = snapshot(folder), f"run-{worker}-{number}"
        sent.bring(agent, str(root), run)
        work = root / "runs" / run / "work"
        bad += any((work / p.name).read_bytes() != p.read_bytes() for p in folder.iterdir())
        if number % 10 == 9:  # an agent holds its runs until it ends
            agent.close()
            agent = fresh_agent()
    agent.close()
    return bad


def test_2000_syncs_beside_prunes(tmp_path: Path) -> None:
    root, over, prunes, removed = tmp_path / "root", threading.Event(), 0, 0
    root.mkdir(0o700)

    def prune_all_the_time() -> None:
        nonlocal prunes, removed
        with closing(fresh_agent()) as agent:
            while not over.is_set():
                asked = {"root": str(root), "limits": TIGHT, "check": False}
                found = agent.call(OP, asked).done["found"]
                prunes, removed = prunes + 1, removed + sum(n for k, n, _ in found if k == "blobs")

    with ThreadPoolExecutor(WORKERS + 1) as pool:
        pruner = pool.submit(prune_all_the_time)
        each = SYNCS // WORKERS + 1
        jobs = [pool.submit(work_on, tmp_path, root, n, each) for n in range(WORKERS)]
        try:
            assert [job.result() for job in jobs] == [0] * WORKERS
        finally:
            over.set()
        pruner.result()
    print(f"{SYNCS} syncs, {prunes} prunes that removed {removed} blobs and packs")
    assert removed > SYNCS // 20
    assert len(os.listdir(root / "blobs/packs")) < 200
