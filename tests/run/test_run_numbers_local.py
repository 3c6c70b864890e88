"""Every command's numbers of one run, against what the run's script itself measured."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ipexctl.machines.target import Target
from ipexctl.report import run_report
from ipexctl.report.all_runs import report_all
from tests.run.test_ps_local import Here
from tests.run.test_ps_local import here as here  # noqa: PLC0414  a fixture

# a script that says how long its steps took, by its own clock, and its own CPU time
TRAIN = """\
import os, sys, time, torch
steps, seconds, word = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
end = time.process_time() + {spun}
while time.process_time() < end: pass  # an import that takes long
times = []
for step in range(steps):
    time.sleep(seconds)
    times.append(time.time())
    if os.environ["RANK"] == "0": print(word, step, "loss", 1 / (step + 1), flush=True)
truth = (times[-1] - times[0]) / (steps - 1)
if os.environ["RANK"] == "0": print("took %f s each" % truth, flush=True)
"""
NEAR = 0.1  # of the truth


class Numbers:
    """What the commands say of the newest run."""

    def __init__(self, here: Here, *words: str, spun: float = 0.0) -> None:
        (here.code / "train.py").write_text(TRAIN.replace("{spun}", str(spun)))
        done = here.call("run", "-n", "2", "--force", "train.py", *words)
        assert done.returncode == 0, done.stderr
        self.here = here
        self.run_id = re.findall(r"run (\d{8}-\d{6}-\w+):", done.stderr)[0]
        self.truth = float(re.findall(r"took ([0-9.]+) s each", done.stdout)[0])

    def documents(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        monkeypatch.chdir(self.here.code)
        folder = self.here.code / ".ipexctl/runs" / self.run_id
        root = self.here.env["HOME"] + "/.ipexctl"
        (row,) = report_all(Target(), self.run_id, root, to="-").document["runs"]
        return {
            "result": json.loads((folder / "result.json").read_text())["speed"],
            "why": json.loads(self.here.call("why", self.run_id, "--json").stdout)["speed"],
            "metrics": json.loads(self.here.call("metrics", self.run_id, "--json").stdout)["speed"],
            "all": row["speed"],
        }

    def cards(self) -> dict[str, dict[str, str]]:
        done = self.here.call("report", self.run_id, "--json")
        return {card["label"]: card for card in json.loads(done.stdout)["cards"]}


def value_of(text: str) -> float:
    found = re.search(r"[\d.,]+", text)
    assert found, text
    return float(found[0].replace(",", ""))


@pytest.mark.timeout(1800)
def test_all_commands_have_the_speed_that_the_script_measured(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Numbers(here, "60", "0.1", "step")
    found = run.documents(monkeypatch)
    wrong = {k: v for k, v in found.items() if abs(v["rate"] * run.truth - 1) > NEAR}
    assert not wrong, (run.truth, found)
    card = run.cards()["Speed"]
    assert abs(value_of(card["value"]) * run.truth - 1) < 2 * NEAR, card
    assert abs(value_of(card["note"]) / 1e3 / run.truth - 1) < 2 * NEAR, card
    said = here.call("metrics", run.run_id).stdout.splitlines()[0]
    assert card["value"] in said


@pytest.mark.timeout(1800)
def test_too_few_steps_have_a_rough_speed_or_none(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Numbers(here, "5", "0.5", "step")
    card = run.cards()["Speed"]
    assert card["value"].startswith("about ") and card["note"].startswith("about ")
    assert 0.5 < value_of(card["value"]) * run.truth < 2
    run = Numbers(here, "5", "0.001", "step")
    assert run.cards()["Speed"]["value"] == "unknown"
    assert {k: v for k, v in run.documents(monkeypatch).items() if v} == {}


@pytest.mark.timeout(1800)
def test_a_line_an_epoch_is_a_speed_that_is_compared(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [Numbers(here, "12", seconds, "epoch") for seconds in ("1.0", "0.5")]
    for run in runs:
        for name, speed in run.documents(monkeypatch).items():
            assert speed["unit"] == "epoch", name
            assert abs(speed["rate"] * run.truth - 1) < NEAR, (name, run.truth, speed)
        assert re.fullmatch(r"(about )?[\d.,]+ epochs/min", run.cards()["Speed"]["value"])
    root = here.env["HOME"] + "/.ipexctl"
    pair = run_report.report(
        Target(), runs[1].run_id, root, compare=runs[0].run_id, to="-"
    ).comparison
    assert pair and pair.factor and pair.speed_differs
    assert abs(pair.factor / (runs[0].truth / runs[1].truth) - 1) < NEAR


@pytest.mark.timeout(1800)
def test_cpu_time_has_imports_and_the_end(here: Here) -> None:
    run = Numbers(here, "3", "0.1", "step", spun=3.0)
    folder: Path = here.code / ".ipexctl/runs" / run.run_id
    ranks = json.loads((folder / "result.json").read_text())["ranks"]
    measured = sum(rank["cpu_seconds"] for rank in ranks)
    assert measured >= 6.0
    facts = dict(json.loads(here.call("report", run.run_id, "--json").stdout)["facts"])
    assert abs(value_of(facts["CPU time"]) - measured) <= 0.1, (facts, measured)


@pytest.mark.timeout(1800)
def test_steps_that_sleep_are_said_to_sleep(here: Here) -> None:
    """Also where other programs hold all CPUs, and the ranks do not wait for one."""
    burn = "import time\nend = time.time() + 300\nwhile time.time() < end: pass"
    for _ in range(os.cpu_count() or 1):
        here.started.append(subprocess.Popen([sys.executable, "-c", burn], text=True))
    run = Numbers(here, "60", "0.3", "step")
    why = here.call("why", run.run_id).stdout
    assert re.search(r"they sleep \d+ % of the time", " ".join(why.split())), why
    card = run.cards()["Waiting"]
    assert card["note"].endswith("mostly sleeping"), card


@pytest.mark.timeout(1800)
def test_what_ranks_do_until_their_first_line_is_said_once(here: Here) -> None:
    torch = next((here.code.parent / "env/lib").glob("python3*/site-packages/torch/__init__.py"))
    torch.write_text("import time\ntime.sleep(25)\n")
    (here.code / "train.py").write_text("import torch\nprint('step 1 loss 1', flush=True)\n")
    done = here.call("run", "-n", "2", "--force", "train.py")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"ranks are importing torch \(\d+ s\)", done.stderr)) == 1, done.stderr
    assert done.stderr.index("importing torch") < done.stderr.index("done: ")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("options", "said"), [(("--compress", "bf16"), 1), ((), 0)])
def test_compression_without_an_effect_is_in_the_summary(
    here: Here, options: tuple[str, ...], said: int
) -> None:
    (here.code / "train.py").write_text("import torch\nprint('step 1 loss 1', flush=True)\n")
    done = here.call("run", "-n", "2", "--force", *options, "train.py")
    assert done.returncode == 0, done.stderr
    summary = " ".join(done.stderr.partition("done: ")[2].split())
    words = "rank 0: --compress bf16: nothing was compressed: the script built no "
    assert summary.count(f"{words}DistributedDataParallel model") == said, done.stderr
