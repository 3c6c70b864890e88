"""Reports of runs on this machine: one compared with another, and one that is removed meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ipexctl.errors import InputError
from ipexctl.machines.target import Target
from ipexctl.report import run_report
from ipexctl.report.all_runs import report_all
from tests.run.test_ps_local import Here

TRAIN = """\
for step in range(10):
    print(f"step {step}/10 loss 1.0 20.0 it/s", flush=True)
"""
TWICE = """\
import os, time
for step in range(10):
    print(f"step {step} loss {1 / (step + 1)}", flush=True)
    time.sleep(0.25)
    if step == 8 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        raise ValueError
"""


@pytest.mark.timeout(1800)
def test_a_run_is_compared_with_one_of_other_code(tmp_path: Path):
    here, root = Here(tmp_path), str(tmp_path / "home/.ipexctl")
    for name, rate in (("one", "20.0"), ("two", "10.0")):
        (here.code / "train.py").write_text(TRAIN.replace("20.0", rate))
        done = here.call("run", "-n", "2", "--force", "--name", name, "train.py", "--lr", name)
        assert done.returncode == 0, done.stderr
    found = run_report.report(Target(), "two", root, compare="one", to="-").comparison
    assert found and found.factor == 0.5
    assert [(one.slug, one.explains) for one in found.differences] == [
        ("code", False), ("arguments", False),
    ]  # fmt: skip
    assert found.differences[0].text == "code: train.py changed"
    (host,) = found.run.hosts.values()
    assert host.cores and dict(host.variables)["IPEXCTL_BACKEND"] == "gloo"


@pytest.mark.timeout(1800)
def test_both_pages_have_the_same_time_and_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, root = Here(tmp_path), str(tmp_path / "home/.ipexctl")
    (here.code / "train.py").write_text(TWICE)
    options = ("-n", "1", "--force", "--restarts", "1", "--name", "twice")
    done = here.call("run", *options, "train.py")
    assert done.returncode == 0, done.stderr + done.stdout
    monkeypatch.chdir(here.code)
    (row,) = report_all(Target(), "", root, to="-").document["runs"]
    page = run_report.report(Target(), "twice", root, to="-").document
    cards = {card["label"]: card for card in page["cards"]}
    assert row["attempts"] == 2 and row["took"] == cards["Time"]["value"]
    assert row["speed"]["text"] == cards["Speed"]["value"]
    assert cards["Speed"]["note"].endswith(" in attempt 2")
    assert row["seconds"] > 4.0  # of both attempts
    attempts = json.loads(here.call("ps", "-a", "--json").stdout)["runs"]
    second, first = (attempt["began"] for attempt in attempts)
    assert row["began"] == first < second
    assert page["attempts"][1][2] == "the beginning (--checkpoints GLOB was not given)"
    assert not (here.code / ".ipexctl/runs/x").exists()
    here.code = tmp_path / "other"
    here.code.mkdir()
    (here.code / "train.py").write_text(TRAIN)
    done = here.call("run", "-n", "2", "--force", "--name", "foreign", "train.py")
    assert done.returncode == 0, done.stderr + done.stdout
    hidden = "runs of other projects that are left out: 1 (--every-project)"
    for pattern, notes in (("", [hidden]), ("tw*", [])):
        found = report_all(Target(), pattern, root, to="-").document
        assert ([row["name"] for row in found["runs"]], found["notes"]) == (["twice"], notes)


@pytest.mark.timeout(1800)
def test_a_run_that_is_removed_once_it_was_found_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, root = Here(tmp_path), str(tmp_path / "home/.ipexctl")
    (here.code / "train.py").write_text("print('step 1/1 loss 1.0')\n")
    done = here.call("run", "-n", "1", "--force", "--name", "gone", "train.py")
    assert done.returncode == 0, done.stderr
    find, removed = run_report.find_run_of_anybody, []

    def and_remove(*args: Any, **more: Any) -> Any:
        run = find(*args, **more)
        if not removed:
            removed.append(here.call("rm", "-y", "gone").returncode)
        return run

    monkeypatch.setattr(run_report, "find_run_of_anybody", and_remove)
    with pytest.raises(InputError):
        run_report.report(Target(), "gone", root, to=str(tmp_path / "report.html"))
    assert removed == [0] and not (tmp_path / "report.html").exists()
