"""Short runs, and what is said of them: no false word. 500, four of five with the real torch.

`IPEXCTL_SOAK_RUNS` sets another number. `make soak` only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from ipexctl.lab import Lab, LabSpec
from tests.practice_hosts import start_lab

pytestmark = pytest.mark.lab
REPO = Path(__file__).parents[2]
HERE = Path(__file__).parent / "exchange"
RUNS = int(os.environ.get("IPEXCTL_SOAK_RUNS", "500"))
ONE_HOST = ("--limit", "node01", "-n", "2")


@dataclass(frozen=True)
class Truth:
    """What may be said of a shape. "unknown" always may, unless `sure`."""

    verdict: str
    options: tuple[str, ...] = ("-n", "4", "-ppn", "2")
    groups: tuple[tuple[int, ...], ...] = ()
    known: str | None = None
    code: int = 0
    sure: bool = False  # it has to be known
    alarm: bool = False
    nothing: bool = False  # no byte went from rank to rank


TOGETHER, UNKNOWN = Truth("together", sure=True), Truth("unknown", sure=True)
ALONE = Truth("alone", sure=True)
TORCH = {
    "all-reduce": TOGETHER,
    "kept": TOGETHER,
    "broadcast": TOGETHER,
    "barrier": ALONE,
    "many": UNKNOWN,
    "gather": TOGETHER,
    "functional": TOGETHER,
    "ring": UNKNOWN,
    "messages": UNKNOWN,
    "file": Truth("together", ONE_HOST, sure=True),
    "tcp": TOGETHER,
    "own-port": TOGETHER,
    "ddp": TOGETHER,
    "fsdp": TOGETHER,
    "halves": Truth("apart", groups=((0, 1), (2, 3)), sure=True),
    "half-world": UNKNOWN,
    "one": ALONE,
    "init": ALONE,
    "store": ALONE,
    "import": ALONE,
    "alone": Truth("alone", sure=True, alarm=True, nothing=True),
    "mpi4py": UNKNOWN,
    "raises": Truth("together", code=1),  # the first one ends the others
    "killed": Truth("unknown", code=137, known="killed", sure=True),
    "exits": UNKNOWN,
    "spawn-kept": TOGETHER,
    "spawn-destroyed": TOGETHER,
}
# sockets of their own, without torch
PLAIN = {
    "none 0.1": UNKNOWN,
    "none 7": UNKNOWN,
    "mesh 0.4": UNKNOWN,
    "hosts 0.1": UNKNOWN,
    "gpus 0": Truth("unknown", known="gpu-check"),
    "fails 0.3": Truth("unknown", code=1),
    "trains 2": UNKNOWN,
}
CASES = [
    *product(["torch_shapes.py"], TORCH.items(), [max(1, RUNS * 4 // 5 // len(TORCH))]),
    *product(["plain_shapes.py"], PLAIN.items(), [max(1, RUNS // 5 // len(PLAIN))]),
]


@dataclass
class Bench:
    lab: Lab
    folder: Path

    def ipexctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        where = ["-f", str(self.lab.hostfile), "-F", str(self.lab.ssh_config)]
        return subprocess.run(
            [sys.executable, "-m", "ipexctl", words[0], *where, *words[1:]],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(REPO)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    def run(self, *words: str) -> tuple[int, dict[str, object]]:
        """The exit code, and the result."""
        addresses = ",".join(str(host.address) for host in self.lab.hosts.values())
        done = self.ipexctl("run", "--json", "--env", f"HOSTS={addresses}", *words)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def bench(lab_root, tmp_path_factory: pytest.TempPathFactory):
    lab = start_lab(LabSpec.plain(2, name="exchange"), lab_root)
    try:
        folder = tmp_path_factory.mktemp("project")
        for script in HERE.glob("*.py"):
            (folder / script.name).write_text(script.read_text())
        made = Bench(lab, folder)
        done = made.ipexctl("install", "--stack", "stock", "-y")
        assert done.returncode == 0, done.stdout + done.stderr
        yield made
    finally:
        lab.down()


def false_words(truth: Truth, code: int, result: dict) -> list[str]:
    """The fields of the result that are not true of such a run."""
    seen, said = result["exchange"], result["known"] and result["known"]["slug"]
    fine = {
        "exit_code": code == result["exit_code"] == truth.code,
        "known": said == truth.known,
        "verdict": seen["verdict"] in {truth.verdict} | ({"unknown"} if not truth.sure else set()),
        "alarm": seen["alarm"] in (False, truth.alarm) and (seen["alarm"] or not truth.alarm),
        "bytes": not (truth.nothing and seen["bytes"]),
        "groups": seen["verdict"] != "apart" or tuple(map(tuple, seen["groups"])) == truth.groups,
        "reason": bool(seen["reason"]) == (seen["verdict"] == "unknown"),
    }
    return [name for name, holds in fine.items() if not holds]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("script", "shape", "times"), CASES, ids=lambda v: v[0] if isinstance(v, tuple) else str(v)
)
def test_no_false_word_is_said_of_short_runs(bench: Bench, script, shape, times) -> None:
    (name, truth), said = shape, Counter[str]()
    for _ in range(times):
        code, result = bench.run(*truth.options, script, *name.split())
        assert false_words(truth, code, result) == [], result
        said[result["exchange"]["verdict"]] += 1
    print(f"{script} {name}: {dict(said)}")


def test_not_known_and_not_together_have_codes_of_their_own(bench: Bench) -> None:
    for words, code, ended_by in (
        (("plain_shapes.py", "none", "0.1"), 126, "not-known"),
        (("torch_shapes.py", "init"), 125, "not-together"),
        (("torch_shapes.py", "kept"), 0, "ranks"),
        (("plain_shapes.py", "gpus", "0"), 126, "not-known"),
    ):
        options = ("-n", "4", "-ppn", "2", "--require-together")
        found = bench.run(*options, *words)
        assert (found[0], found[1]["exit_code"], found[1]["ended_by"]) == (code, code, ended_by)
