"""Storms: every minute one of five hosts loses power, one time in five two do, and each is back
some seconds later; the training ends as it would have without them.

`IPEXCTL_SOAK_STORMS` sets how many, `IPEXCTL_SOAK_MINUTES` how long each lasts (8). `make soak`
only.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.lab import HostSpec, Lab, LabSpec
from tests.practice_hosts import LabRoot, start_lab

pytestmark = pytest.mark.soak
REPO = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "restarts" / "train.py"
STORMS = int(os.environ.get("IPEXCTL_SOAK_STORMS", "1"))
MINUTES = float(os.environ.get("IPEXCTL_SOAK_MINUTES", "8"))
LONG = 60  # seconds; of a storm with a longer restart the lines of the run are printed
WORDS = (str(int(MINUTES * 140)), "70", "30")  # steps, of 0.25 s; a checkpoint each 70, of 30 MB
ENV = {**os.environ, "PYTHONPATH": str(REPO)}
STORM = ("--restarts", "60", "--spares", "node05", "--min-hosts", "3", "--host-timeout", "15s")


@pytest.fixture(scope="module")
def lab(lab_root: LabRoot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = start_lab(LabSpec(name="storm", hosts=(HostSpec(),) * 5), lab_root)
    try:
        install = ("install", "-y", "--stack", "stock")
        folder = tmp_path_factory.mktemp("storm")
        done = subprocess.run(command(made, *install), cwd=folder, env=ENV, check=False)
        assert done.returncode == 0
        yield made
    finally:
        made.down()


def command(lab: Lab, verb: str, *words: str) -> list[str]:
    where = ["-f", str(lab.hostfile), "-F", str(lab.ssh_config)]
    return [sys.executable, "-m", "ipexctl", verb, *where, *words]


class Training:
    def __init__(self, lab: Lab, folder: Path, *words: str) -> None:
        (folder / "train.py").write_text(SCRIPT.read_text())
        run = command(lab, "run", "--ui", "plain", "--no-fold", "-ppn", "1", *words)
        self.process = subprocess.Popen(
            [*run, "train.py", *WORDS], cwd=folder, env=ENV, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.lines: list[str] = []
        self.times: list[float] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.times.append(time.monotonic())
            self.lines.append(line.rstrip())

    def note(self, line: str) -> None:
        self.times.append(time.monotonic())
        self.lines.append(line)

    def without_steps(self) -> str:
        rows = zip(self.times, self.lines, strict=False)
        kept = [(t, x) for t, x in rows if not re.search(r"rank [1-9]\d* |step \d+[1-9]$", x)]
        return "\n".join(f"{t - self.times[0]:7.1f} {x}" for t, x in kept)

    @property
    def goes_on(self) -> bool:
        return self.process.poll() is None

    def until(self, pattern: str) -> None:
        while self.goes_on and not any(re.search(pattern, line) for line in self.lines):
            time.sleep(0.2)

    def restarts(self, hits: list[float]) -> list[float]:
        """Seconds from a hit to the first step of the next attempt, where there was one."""
        found = []
        for hit, after in zip(hits, [*hits[1:], float("inf")], strict=True):
            rows = [x for t, x in zip(self.times, self.lines, strict=False) if hit < t < after]
            if not any("; attempt " in x for x in rows):
                continue  # of a spare, or the one before went on
            steps = zip(self.times, self.lines, strict=False)
            began = [t for t, x in steps if t > hit and re.search(r"rank 0 step \d+$", x)]
            found += [t - hit for t in began[:1]]
        return found

    def weights(self) -> float:
        """At its end."""
        code = self.process.wait(900)
        (found,) = re.findall(r"FINAL ([\d.]+)", "\n".join(self.lines))
        assert code == 0, "\n".join(self.lines[-40:])
        return float(found)


@pytest.mark.timeout(60 * MINUTES + 1800)
@pytest.mark.parametrize("seed", range(STORMS))
def test_a_training_ends_as_it_would_have_without_the_storm(lab: Lab, tmp_path: Path, seed: int):
    quiet = Training(lab, tmp_path, "-x", "node05", "--env", "PAUSE=0").weights()
    chance = random.Random(seed)
    storm = Training(lab, tmp_path, *STORM, "--checkpoints", "out/checkpoint-*")
    storm.until("saved")
    until = time.monotonic() + 60 * MINUTES
    hits = []
    while storm.goes_on and time.monotonic() < until:
        hit = chance.sample([*lab.hosts], 2 if chance.random() < 0.2 else 1)
        hits.append(time.monotonic())
        for host in hit:
            lab.fault(host, "kill")
        storm.note(f"storm: {', '.join(hit)} lost")
        time.sleep(chance.uniform(5, 25))
        for host in hit:
            lab.heal(host)
        storm.note(f"storm: {', '.join(hit)} back")
        time.sleep(chance.uniform(35, 50))
    weights = storm.weights()
    restarts = storm.restarts(hits)
    print(f"storm {seed}: {len(hits)} hits, restarts after {restarts} s")
    if max(restarts, default=0) > LONG or weights != pytest.approx(quiet, abs=1e-4):
        print(storm.without_steps())
    assert weights == pytest.approx(quiet, abs=1e-4)
