"""The alarm "ranks do not train together" on 4 hosts with real frameworks, each case five times.

`IPEXCTL_SOAK_TIMES` sets another number of times. `make soak` only.
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

from ipexctl.lab import Lab, LabSpec
from tests.practice_hosts import start_lab

pytestmark = pytest.mark.lab
REPO = Path(__file__).parents[2]
HERE = Path(__file__).parent
TIMES = int(os.environ.get("IPEXCTL_SOAK_TIMES", "5"))
NEEDS = "accelerate==1.15.0\nscikit-learn\ntransformers\nlightning\nmpi4py\n"
TRAINER = ("--output_dir", "out", "--max_steps", "6", "--logging_steps", "1", "--report_to", "none")
NOT_TOLD = ("--env", "ACCELERATE_USE_CPU=false")


@dataclass(frozen=True)
class Case:
    words: tuple[str, ...]
    options: tuple[str, ...] = ()
    warned: bool = True  # while the run goes on; short runs only have their summary


ALONE = {
    "bare Accelerator": Case(("accelerate_loop.py",), NOT_TOLD, warned=False),
    "bare PartialState": Case(("partial_state.py",), warned=False),
    "Trainer without --use_cpu": Case(("trainer.py", *TRAINER), NOT_TOLD, warned=False),
    "joined and never wrapped": Case(("loops.py", "joined")),
    "joined by Accelerate, nothing prepared": Case(("unprepared.py",)),
    "joined at a port of its own, never wrapped": Case(("loops.py", "own-port-alone")),
    "two half groups": Case(("loops.py", "halves")),
}
TOGETHER = {
    "DDP": Case(("loops.py", "wrapped")),
    "45 s of preprocessing before the group": Case(("loops.py", "preprocess", "45")),
    "a port of its own": Case(("loops.py", "own-port")),
    "a file as rendezvous": Case(("loops.py", "file"), ("--limit", "node01")),
    "evaluation on one rank": Case(("loops.py", "evaluate")),
    "no_sync accumulation": Case(("loops.py", "no-sync")),
    "Accelerator()": Case(("accelerate_loop.py",)),
    "Trainer": Case(("trainer.py", *TRAINER)),
}


@dataclass
class Bench:
    lab: Lab
    folder: Path

    def ipexctl(self, *words: str) -> subprocess.Popen[str]:
        where = ["-f", str(self.lab.hostfile), "-F", str(self.lab.ssh_config)]
        return subprocess.Popen(
            [sys.executable, "-m", "ipexctl", words[0], *where, *words[1:]],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(REPO), "PIP_CONFIG_FILE": os.devnull},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, case: Case) -> tuple[dict[str, object], list[tuple[float, str]], list[float]]:
        """The exchange in the result, the warnings and the printed steps with their times."""
        run = self.ipexctl("run", "--json", "-ppn", "2", *case.options, *case.words)
        warnings, steps, result = [], [], {}
        assert run.stdout
        for line in run.stdout:
            event = json.loads(line)
            if event["event"] == "note" and event["text"].startswith("WARNING"):
                warnings.append((time.monotonic(), event["text"]))
            if event["event"] == "line" and "loss" in event["text"] and event["rank"] == 0:
                steps.append(time.monotonic())
            result = event
        assert run.wait() == 0, (run.stderr.read() if run.stderr else "", result)
        return result["exchange"], warnings, steps


@pytest.fixture(scope="module")
def bench(lab_root, tmp_path_factory: pytest.TempPathFactory):
    lab = start_lab(LabSpec.plain(4, name="alarm"), lab_root)
    try:
        folder = tmp_path_factory.mktemp("project")
        for scripts in ("frameworks", "alarm"):
            shutil.copytree(HERE / scripts, folder, dirs_exist_ok=True)
        (folder / "requirements.txt").write_text(NEEDS)
        made = Bench(lab, folder)
        installed = made.ipexctl("install", "--stack", "stock", "-r", "requirements.txt", "-y")
        out, err = installed.communicate()
        assert installed.returncode == 0, out + err
        yield made
    finally:
        lab.down()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ALONE)
def test_ranks_that_do_not_train_together_are_told(bench: Bench, name: str) -> None:
    for _ in range(TIMES):
        seen, warnings, steps = bench.run(ALONE[name])
        assert seen["alarm"], seen
        if ALONE[name].warned:
            assert len(warnings) == 1 and warnings[0][0] - steps[1] < 30


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", TOGETHER)
def test_ranks_that_train_together_are_left_alone(bench: Bench, name: str) -> None:
    for _ in range(TIMES):
        seen, warnings, _ = bench.run(TOGETHER[name])
        assert (seen["verdict"], seen["alarm"], warnings) == ("together", False, [])


@pytest.mark.timeout(1800)
def test_a_sweep_gets_a_plain_line(bench: Bench) -> None:
    for _ in range(TIMES):
        seen, warnings, _ = bench.run(Case(("sweep.py",)))
        assert (seen["verdict"], seen["alarm"], warnings) == ("alone", False, [])


@pytest.mark.timeout(1800)
def test_averages_by_mpi_are_not_known(bench: Bench) -> None:
    for options in ((), ("--limit", "node01")):
        seen, warnings, _ = bench.run(Case(("mpi_loop.py",), options))
        assert (seen["verdict"], seen["alarm"], warnings) == ("unknown", False, [])


@pytest.mark.timeout(1800)
def test_hosts_that_all_claim_to_be_the_first_are_told_while_they_wait(bench: Bench) -> None:
    for _ in range(TIMES):
        words = ("--env", "NODE_RANK=0", "--timeout", "100", "lightning_wrong.py")
        run = bench.ipexctl("run", "--json", "-ppn", "2", *words)
        out, _ = run.communicate()
        events = [json.loads(line) for line in out.splitlines()]
        notes = [e["text"] for e in events if e["event"] == "note"]
        failed = events[-1]["ended_by"] == "rank-failed"  # EADDRINUSE: it says so itself
        assert failed or any("ranks wait in the rendezvous" in n for n in notes), events[-5:]
