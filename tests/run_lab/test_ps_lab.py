"""ps, stop and wait on three hosts, from another controller than the one that started the run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run_lab.test_run_faults import SLEEP, up


def second(runner, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """From a controller with a home of its own."""
    home.mkdir(exist_ok=True)
    lab = ("--hostfile", str(runner.hostfile), "-F", str(runner.lab.ssh_config), *runner.root)
    return subprocess.run(
        [sys.executable, "-m", "ipexctl", *words, *lab], stdin=subprocess.DEVNULL,
        capture_output=True, text=True, cwd=home, env=runner.environment(HOME=str(home)),
        timeout=120,
    )  # fmt: skip


def listed(runner, home: Path, run_id: str) -> dict:
    done = second(runner, home, "ps", "-a", "--json")
    return next(row for row in json.loads(done.stdout)["runs"] if row["run_id"] == run_id)


@pytest.mark.parametrize("mpi", ["with", "without"])
def test_a_second_controller_lists_and_stops_the_run(runner, tmp_path, mpi):
    ranks = ("-n", "3") if mpi == "with" else ("-n", "3", "--env", "IPEXCTL_BACKEND=gloo")
    run = runner.start(*ranks, "--name", f"bert-{mpi}", str(runner.script(SLEEP)))
    up(run, 3)
    run_id = run.run_id
    row = listed(runner, tmp_path / "two", run_id)
    assert (row["state"], row["ranks_started"], row["hosts_alive"]) == (
        "running", 3, ["node01", "node02", "node03"],
    )  # fmt: skip
    assert row["last_line"] == "up"
    stopped = second(runner, tmp_path / "two", "stop", run_id[:-3], "-t", "3")
    assert (stopped.returncode, stopped.stdout) == (0, f"{run_id} is stopped\n")
    result = run.finish()
    assert (result["exit_code"], result["ended_by"]) == (130, "interrupted")
    assert "(ipexctl stop)" in result["cause"]
    assert runner.gone(run_id, seconds=5) == {}
    waited = second(runner, tmp_path / "two", "wait", f"bert-{mpi}")
    assert waited.returncode == 130


def test_a_host_that_is_off_does_not_hide_what_the_others_know(runner, tmp_path):
    script = runner.script(
        "import os, sys\n"
        "for i in range(5): print('step', i, flush=True)\n"
        "sys.exit(3 * (os.environ['RANK'] == '1'))\n"
    )
    run = runner.start("-n", "3", str(script))
    assert run.finish()["exit_code"] == 3
    run_id = run.run_id
    runner.lab.fault("node01", "kill")
    try:
        done = second(runner, tmp_path / "two", "ps", "-a")
        logs = second(runner, tmp_path / "two", "logs", run_id, "-n", "2")
    finally:
        runner.lab.heal("node01")
    lines = [line for line in logs.stdout.splitlines() if line.startswith("node01 r00 | ")]
    assert lines == ["node01 r00 | step 3", "node01 r00 | step 4"]
    assert "node01: not reached; other hosts have the last lines of rank 0" in logs.stderr
    assert done.returncode == 4
    at = done.stdout.index(run_id)
    assert "rank 1 on node02 exited with code 3" in done.stdout[at:]
    assert "node01  unreachable" in done.stdout
