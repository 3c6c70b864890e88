"""Runs that go on without who started them, on three hosts; looked at from a second controller."""

from __future__ import annotations

import time

import pytest

from tests.run_lab.test_mpi_lab import fleet, of_each_mpi, without  # noqa: F401  (fixtures)
from tests.run_lab.test_ps_lab import listed, second

COUNT = (
    "import os, sys, time\n"
    "for i in range(150): print('step', i, flush=True); time.sleep(0.1)\n"
    "sys.exit(3 if os.environ['RANK'] == sys.argv[1] else 0)\n"
)
LONG = "import time\nprint('up', flush=True)\ntime.sleep(100)\n"


def detached(runner, *words: str) -> str:
    done = runner.plain("-d", "-n", "3", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


def counted(runner, home) -> None:
    """Every line once, and the exit code, for a controller that did not start it."""
    script = str(runner.script(COUNT))
    run_id = detached(runner, script, "1")
    watched = second(runner, home, "attach", run_id)
    assert watched.returncode == 3, watched.stderr
    assert "rank 1 on node02 exited with code 3" in watched.stderr
    for done in (watched, second(runner, home, "logs", run_id)):
        lines = done.stdout.splitlines()
        for rank in range(3):
            mine = [line.split("| ")[1] for line in lines if f" r0{rank} | " in line]
            assert mine == [f"step {i}" for i in range(150)]
    waited = second(runner, home, "wait", run_id)
    assert (waited.returncode, "rank 1 on node02 exited with code 3" in waited.stdout) == (3, True)
    assert runner.gone(run_id, seconds=5) == {}


def test_under_intel_mpi_a_second_controller_sees_all_of_it(runner, tmp_path):
    counted(runner, tmp_path / "two")


@of_each_mpi
def test_under_each_mpi_a_second_controller_sees_all_of_it(fleet, tmp_path):  # noqa: F811
    counted(fleet.runner(tmp_path), tmp_path / "two")


def test_without_mpi_a_second_controller_sees_all_of_it(without, tmp_path):  # noqa: F811
    counted(without.runner(tmp_path), tmp_path / "two")


@pytest.mark.parametrize(
    ("host", "strike", "code", "cause"),
    [
        ("node02", "pkill -KILL -o -f '[s]cript.py'", 137, "rank 1 on node02 was ended by"),
        ("node02", "pkill -KILL -x ipexctl-run", 121, "node02 was lost: the supervisor of the run"),
        ("node01", "pkill -KILL -x ipexctl-run", 121, "node01 was lost: the supervisor of the run"),
        ("node03", "pkill -STOP -x ipexctl-run", 121, "node03 was lost: no message from it for "),
    ],
)  # fmt: skip
def test_what_is_killed_when_nobody_watches_leaves_nothing_and_is_named(
    runner, tmp_path, host, strike, code, cause
):
    run_id = detached(runner, "--host-timeout", "4", str(runner.script(LONG)))
    assert runner.lab.run_in(host, ["/bin/sh", "-c", strike]).returncode == 0
    assert runner.gone(run_id, seconds=4 + 10 + 5) == {}
    row = listed(runner, tmp_path / "two", run_id)
    deadline = time.monotonic() + 20  # a stopped supervisor is killed by its guardian
    while row["state"] == "stopping" and time.monotonic() < deadline:
        row = listed(runner, tmp_path / "two", run_id)
    assert row["cause"].startswith(cause)
    assert (row["state"], row["exit_code"]) == ("failed", code)


def test_a_cable_that_is_out_for_a_moment_does_not_end_the_run(namespaces, runner, tmp_path):
    run_id = detached(runner, "--host-timeout", "20", str(runner.script(LONG)))
    runner.lab.fault("node02", "unplug")
    try:
        time.sleep(10)
    finally:
        runner.lab.heal("node02")
    time.sleep(3)
    row = listed(runner, tmp_path / "two", run_id)
    assert (row["state"], row["hosts_alive"]) == ("running", ["node01", "node02", "node03"])
    stopped = second(runner, tmp_path / "two", "stop", run_id, "-t", "3")
    assert (stopped.returncode, stopped.stdout) == (0, f"{run_id} is stopped\n")
    assert runner.gone(run_id, seconds=5) == {}
