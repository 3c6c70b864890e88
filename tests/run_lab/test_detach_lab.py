"""Runs that go on without who started them, on three hosts; looked at from a second controller."""

from __future__ import annotations

from tests.run_lab.test_mpi_lab import fleet, of_each_mpi, without  # noqa: F401  (fixtures)
from tests.run_lab.test_ps_lab import second

COUNT = (
    "import os, sys, time\n"
    "for i in range(150): print('step', i, flush=True); time.sleep(0.1)\n"
    "sys.exit(3 if os.environ['RANK'] == sys.argv[1] else 0)\n"
)


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
