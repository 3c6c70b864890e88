"""Short runs, and what is said of them: no false word. 500, of which a fifth with the real torch.

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
    """What may be said of a shape. "unknown" always may, unless it ran long enough."""

    verdict: str
    options: tuple[str, ...] = ("-n", "4", "-ppn", "2")
    groups: tuple[tuple[int, ...], ...] = ()
    known: str | None = None
    code: int = 0
    sure: bool = False  # it ran long enough to be judged
    alarm: bool = False
    nothing: bool = False  # no byte went from rank to rank


TOGETHER, ALONE = Truth("together"), Truth("alone", nothing=True)
TORCH = {
    "all-reduce": TOGETHER,
    "broadcast": TOGETHER,
    "barrier": TOGETHER,
    "gather": TOGETHER,
    "ring": TOGETHER,
    "file": Truth("together", ONE_HOST),
    "tcp": TOGETHER,
    "own-port": TOGETHER,
    "ddp": Truth("together", sure=True),
    "halves": Truth("apart", groups=((0, 1), (2, 3))),
    "init": Truth("alone"),
    "store": ALONE,
    "import": ALONE,
}
PLAIN = {
    "none 0.1": ALONE,
    "none 1": ALONE,
    "none 3": ALONE,
    "none 7": Truth("alone", sure=True, nothing=True),
    "mesh 0": TOGETHER,
    "mesh 0.4": TOGETHER,
    "mesh 1.5": TOGETHER,
    "tiny 0": TOGETHER,
    "tiny 0.7": TOGETHER,
    "ring 0.2": TOGETHER,
    "star 0.3": TOGETHER,
    "hosts 0.1": Truth("apart", groups=((0, 1), (2, 3))),
    "across 0.2": Truth("apart", groups=((0, 2), (1, 3))),
    "two 0.5": Truth("apart", groups=((0, 1), (2,), (3,))),
    "two 6": Truth("apart", groups=((0, 1), (2,), (3,))),
    "store 0.2": ALONE,
    "gpus 0": Truth("alone", known="gpu-check", nothing=True),
    "fails 0.3": Truth("alone", code=1, nothing=True),
    "trains 2": ALONE,
    "trains 7": Truth("alone", sure=True, alarm=True, nothing=True),
}
CASES = [
    *product(["torch_shapes.py"], TORCH.items(), [max(1, RUNS // 5 // len(TORCH))]),
    *product(["plain_shapes.py"], PLAIN.items(), [max(1, RUNS * 4 // 5 // len(PLAIN))]),
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
        (("none", "0.1"), 126, "not-known"),
        (("none", "7"), 125, "not-together"),
        (("gpus", "0"), 126, "not-known"),
    ):
        options = ("-n", "4", "-ppn", "2", "--require-together")
        found = bench.run(*options, "plain_shapes.py", *words)
        assert (found[0], found[1]["exit_code"], found[1]["ended_by"]) == (code, code, ended_by)
