"""`ipexctl why` on 4 hosts with the real torch: scripts that hang, each named rightly, and healthy
ones that are silent for a minute, of which nothing is said.

tests/soak/hangs/expected.toml says what is right. `IPEXCTL_SOAK_TIMES` sets a number of times for
each. `make soak` only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ipexctl.base.toml import loads
from ipexctl.lab import Lab, LabSpec
from tests.practice_hosts import start_lab

pytestmark = pytest.mark.soak
REPO = Path(__file__).parents[2]
HERE = Path(__file__).parent / "hangs"
TIMES = int(os.environ.get("IPEXCTL_SOAK_TIMES", "1"))
RANKS = range(4)  # one on each of node01 to node04
NOTICED = 60.0  # seconds in which a run must be listed as stalled
EXPECTED: dict[str, dict[str, Any]] = loads((HERE / "expected.toml").read_text("utf-8"))
SCRIPTS = {path.stem: path for path in sorted(HERE.glob("*/*.py"))}
HANGING = [name for name in SCRIPTS if name.startswith("p")]
HEALTHY = [name for name in SCRIPTS if name.startswith("ok")]


@dataclass
class Bench:
    lab: Lab
    folder: Path

    def ipexctl(self, *words: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        where = ["-f", str(self.lab.hostfile), "-F", str(self.lab.ssh_config)]
        return subprocess.run(
            [sys.executable, "-m", "ipexctl", words[0], *where, *words[1:]],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(REPO)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip

    def detached(self, script: str, name: str) -> str:
        words = ("--detach", "--ui", "plain", "--name", name, "-ppn", "1", "--stall", "15")
        began = self.ipexctl("run", *words, f"{script}.py")
        assert began.returncode == 0, began.stdout + began.stderr
        return began.stdout.split()[-1]

    def row(self, run_id: str) -> dict[str, Any]:
        done = self.ipexctl("ps", "--all", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        rows = json.loads(done.stdout)["runs"]
        return next(row for row in rows if row["run_id"] == run_id)

    def stalled(self, run_id: str) -> dict[str, Any]:
        """The row of the run once it is known to hang, or after a minute."""
        deadline = time.monotonic() + NOTICED
        while (row := self.row(run_id))["stalled"] is None and time.monotonic() < deadline:
            # the script must hang, not fail
            assert row["state"] in ("starting", "running", "stalled"), row
            time.sleep(1)
        return row

    def why(self, run_id: str) -> dict[str, Any]:
        done = self.ipexctl("why", run_id, "--json")
        assert done.returncode == 1, done.stdout + done.stderr
        document = json.loads(done.stdout)
        assert isinstance(document, dict)
        return document


@pytest.fixture(scope="module")
def bench(lab_root, tmp_path_factory: pytest.TempPathFactory):
    lab = start_lab(LabSpec.plain(len(RANKS), name="hangs"), lab_root)
    try:
        folder = tmp_path_factory.mktemp("project")
        for path in SCRIPTS.values():
            (folder / path.name).write_text(path.read_text("utf-8"), "utf-8")
        made = Bench(lab, folder)
        done = made.ipexctl("install", "--stack", "stock", "-y", seconds=900)
        assert done.returncode == 0, done.stdout + done.stderr
        yield made
    finally:
        lab.down()


def any_of(right: str | list[str]) -> list[str]:
    return right if isinstance(right, list) else [right]


def any_ranks(right: list[Any]) -> list[set[int]]:
    return [set(ranks) for ranks in right] if isinstance(right[0], list) else [set(right)]


def plain(name: str) -> str:
    return name.replace("_", "").lower()


def is_in(function: str, where: str) -> bool:
    """`data.py:88 in load_batch`, also where the name is qualified: `in Loader.load_batch`."""
    named = where.partition(" in ")[2].split()
    return bool(named) and named[0].rstrip("():,").rpartition(".")[2] == function


def differences(said: dict[str, Any], right: dict[str, Any]) -> list[str]:
    """Between the document of `why` and what is expected; empty if there are none."""
    suspects = {s["rank"]: s for s in said["suspects"]}
    wrong = []
    if said["stalled"] is not True:
        wrong.append(f"stalled is {said['stalled']}")
    if said["kind"] not in any_of(right["kind"]):
        wrong.append(f"kind {said['kind']}, not {right['kind']}")
    if set(suspects) not in any_ranks(right["ranks"]):
        wrong.append(f"suspects {sorted(suspects)}, not {right['ranks']}")
    for rank, suspect in suspects.items():
        if suspect["host"] != f"node{rank + 1:02d}":
            wrong.append(f"rank {rank} on {suspect['host']}")
    functions = [f for f in any_of(right["function"]) if f]
    places = [s["where"] or "" for s in suspects.values()]
    if functions and places and not any(is_in(f, place) for f in functions for place in places):
        wrong.append(f"suspects at {places}, not in {functions}")
    names = [plain(c) for c in any_of(right["collective"]) if c]
    waiting = [g for g in said["groups"] if any(n in plain(g["what"] or "") for n in names)]
    if names and not any(set(g["ranks"]) - set(suspects) for g in waiting):
        wrong.append(f"nobody waits in {right['collective']}: {said['groups']}")
    return wrong


def test_each_script_has_what_is_expected_of_it() -> None:
    assert sorted(SCRIPTS) == sorted(EXPECTED)
    assert (len(HANGING), len(HEALTHY)) == (24, 12)


@pytest.mark.timeout(600 * TIMES)
@pytest.mark.parametrize("name", HANGING)
def test_who_hangs_and_why(bench: Bench, name: str) -> None:
    for turn in range(TIMES):
        run_id = bench.detached(name, f"{name}-{turn}".replace("_", "-"))
        try:
            row = bench.stalled(run_id)
            said = bench.why(run_id)
        finally:
            bench.ipexctl("stop", "-t", "1s", run_id)
        assert row["stalled"] is not None, (row, said)
        assert differences(said, EXPECTED[name]) == [], json.dumps(said, indent=1)


@pytest.mark.timeout(600 * TIMES)
@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_said_of_a_run_that_is_only_silent(bench: Bench, name: str) -> None:
    for _ in range(TIMES):
        done = bench.ipexctl("run", "--ui", "plain", "-ppn", "1", f"{name}.py", seconds=300)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = (done.stdout + done.stderr).splitlines()
        assert [line for line in lines if "no progress for" in line] == []
