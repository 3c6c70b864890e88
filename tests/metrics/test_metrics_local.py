"""`ipexctl metrics` and `logs -f` of real runs on this machine."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime
from pathlib import Path

import pytest

from tests.run.test_ps_local import Here
from tests.ssh.test_shell import Terminal

pytestmark = pytest.mark.timeout(1800)
TRAIN = """\
import os, sys, torch
rank = int(os.environ["RANK"])
for step in range(1, 6):
    print(f"step {step}/5 loss {1 / step + rank:.2f}", flush=True)
    if rank == 0:
        sys.stderr.write(f"\\r{step * 20}%|##| {step}/5 [00:0{step}<00:01, 2.50it/s]")
print("loss nan")
"""


def test_metrics_of_a_run(tmp_path: Path):
    here = Here(tmp_path)
    (here.code / "train.py").write_text(TRAIN)
    done = here.call("run", "-n", "2", "--force", "train.py")
    assert done.returncode == 0, done.stderr
    (run,) = here.listed("-a")

    shown = here.call("metrics", run["run_id"])
    assert shown.returncode == 0, shown.stderr
    first, second = shown.stdout.splitlines()
    assert "r00  step 1 to 5" in first and "2.50 steps/s" in first
    assert "r01  step 1 to 5 " in second and " 2 -> nan " in second and " 6 lines" in second

    rows = list(csv.DictReader(io.StringIO(here.call("metrics", "@last", "--csv").stdout)))
    losses = [(row["step"], row["loss"]) for row in rows if row["rank"] == "1"]
    wanted = [("1", "2.0"), ("2", "1.5"), ("3", "1.33"), ("4", "1.25"), ("5", "1.2"), ("", "nan")]
    assert losses == wanted
    assert {row["rate"] for row in rows if row["rank"] == "0"} == {"", "2.5"}

    document = json.loads(here.call("metrics", run["run_id"], "--json", "--ranks", "1").stdout)
    assert [p["rank"] for p in document["points"]] == [1] * 6
    assert document["points"][-1]["loss"] == "nan"
    assert document["points"][0] | {"host": "", "time": ""} == {
        "rank": 1, "host": "", "line": 1, "time": "", "step": 1, "total": 5, "loss": 2.0,
    }  # fmt: skip


LOST = """\
import time
for step in range(1, 9):
    print(f"step {step} loss {'nan' if step > 4 else 1 / step} grad_norm inf", flush=True)
    time.sleep(0.1)
"""


def test_a_loss_that_became_nan_is_noted_and_listed(tmp_path: Path):
    here = Here(tmp_path)
    (here.code / "train.py").write_text(LOST)
    done = here.call("run", "--force", "train.py")
    assert done.returncode == 0 and done.stderr.count("is nan since step 5 ") == 2
    assert "is nan since step 5 " in done.stderr.partition("done: ")[2]  # the summary
    assert "loss nan since step 5" in here.call("metrics", "@last").stdout
    document = json.loads(here.call("metrics", "@last", "--json").stdout)
    assert document["bad_loss"] == [{"rank": 0, "loss": "nan", "since": "step 5"}]
    page = json.loads(here.call("report", "@last", "--json").stdout)
    assert (page["state"], page["tone"]) == ("done", "warm")


SLOW = """\
import time
for step in range(1, 13):
    print(f"step {step} loss {time.time():.3f}", flush=True)
    time.sleep(0.8 if step != 6 else 6)
"""


def test_metrics_have_the_time_at_which_a_line_was_printed(tmp_path: Path):
    here = Here(tmp_path)
    (here.code / "train.py").write_text(SLOW)
    assert here.call("run", "train.py").returncode == 0
    printed = [float(line.split()[-1]) for line in here.call("logs", "@last").stdout.splitlines()]
    document = json.loads(here.call("metrics", "@last", "--json").stdout)
    times = [datetime.fromisoformat(p["time"]).timestamp() for p in document["points"]]
    assert len(times) == len(printed) == 12
    assert times == sorted(times)
    assert max(abs(found - real) for found, real in zip(times, printed, strict=True)) <= 4


FOLLOWED = """\
import os, sys, time, torch
rank = int(os.environ["RANK"])
for step in range(1, 41):
    sys.stderr.write(f"\\r{step * 20}%|##| {step}/40 [00:0{step}<00:01, 2.50it/s]")
    print(f"step {step}/40 loss {1 / step + rank:.2f}", flush=True)
    time.sleep(0.2)
    while step == 39 and not os.path.exists(sys.argv[1]):  # until it is followed
        time.sleep(0.1)
"""


def test_followed_lines_fold_below_them_the_progress(tmp_path: Path):
    here = Here(tmp_path)
    (here.code / "train.py").write_text(FOLLOWED)
    begun = here.call("run", "-d", "-n", "2", "--force", "train.py", str(tmp_path / "seen"))
    assert begun.returncode == 0, begun.stderr
    variables = [f"{name}={value}" for name, value in {**here.env, "TERM": "xterm"}.items()]
    words = ["env", "-i", *variables, *here.argv("logs", begun.stdout.strip(), "--follow")]
    terminal = Terminal(words, 24, 100)
    terminal.until(r"all +x2  \|\S* step \d+/40 loss 0\.\d+\.\.1\.\d+")
    terminal.until(r"step \d+/40  loss 0\.\d+  \d(\.\d+)? it/s  eta \d+ s")
    (tmp_path / "seen").touch()
    terminal.until(r"step 40/40 loss")
    assert terminal.exit_code() == 0
    assert "all" not in here.call("logs", begun.stdout.strip()).stdout
