"""run --checkpoints on three hosts: the writer loses power, or what copies is killed at any moment.

Each script writes two files for a step, both made from its number, so that a mixed or cut one is
found by its content.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from pathlib import Path

import pytest

from ipexctl.lab.cluster.rung_limits import FLAT
from tests.practice_hosts import ONE_MACHINE
from tests.run_lab.test_detach_lab import detached
from tests.run_lab.test_mpi_lab import without  # noqa: F401  (a fixture)
from tests.run_lab.test_ps_lab import second

WRITES = """
import hashlib, os, sys, time, zipfile
rank, steps, every = int(os.environ["RANK"]), int(sys.argv[1]), float(sys.argv[2])
print("from", os.environ.get("IPEXCTL_CHECKPOINT", "-"), sys.argv[3:], flush=True)
if "IPEXCTL_CHECKPOINT" in os.environ:
    print(sorted(os.listdir(os.environ["IPEXCTL_CHECKPOINT"])), flush=True)
for step in range(1, steps + 1):
    if rank == 0:
        folder = "out/checkpoint-%d" % step
        os.makedirs(folder)
        data = hashlib.sha256(b"%d" % step).digest() * 40000
        with zipfile.ZipFile(folder + "/model.pt", "w") as file:
            file.writestr("data", data)
        with open(folder + "/sum", "w") as file:
            file.write(hashlib.sha256(data).hexdigest())
    time.sleep(every)
"""
PATTERN = ("--checkpoints", "out/**/checkpoint-*")


def in_test(step: int) -> str:
    return hashlib.sha256(hashlib.sha256(b"%d" % step).digest() * 40000).hexdigest()


@pytest.fixture
def runner(without, tmp_path):  # noqa: F811
    if without.lab.rung == FLAT:
        pytest.skip(ONE_MACHINE)
    return without.runner(tmp_path)


def checkpoints(runner, home: Path, run_id: str) -> list[dict]:
    done = second(runner, home, "checkpoints", run_id, "--json")
    return [row for row in json.loads(done.stdout)["checkpoints"] if row["complete"]]


def until_complete(runner, home: Path, run_id: str, least: int = 1) -> list[dict]:
    deadline = time.monotonic() + 60
    while not (found := checkpoints(runner, home, run_id)) or found[0]["step"] < least:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    return found


def fetched(runner, home: Path, run_id: str, step: int) -> None:
    dest = home / f"got-{step}-{time.monotonic_ns()}"
    done = second(runner, home, "fetch", run_id, "--checkpoint", str(step), "-o", str(dest))
    folder = dest / f"out/checkpoint-{step}"
    assert folder.is_dir(), done.stderr
    assert (folder / "sum").read_text() == in_test(step)


def test_a_run_goes_on_from_its_last_checkpoint_when_the_host_that_wrote_it_is_gone(
    runner, tmp_path
):
    home = tmp_path / "b"
    run_id = detached(
        runner, *PATTERN, "--host-timeout", "5", str(runner.script(WRITES)), "40", "3"
    )
    assert until_complete(runner, home, run_id)[0]["hosts"] == ["node01", "node02"]
    runner.lab.fault("node01", "kill")
    try:
        last = checkpoints(runner, home, run_id)[0]
        assert last["hosts"] == ["node02"]
        fetched(runner, home, run_id, last["step"])
        time.sleep(8.0)  # until the others have ended
        options = ("-x", "node01", "-n", "2", "--resume", run_id)
        words = ("--resume-arg", "--from {checkpoint}", str(runner.script(WRITES)), "0", "0")
        run, _ = runner.train(*options, *words)
        for rank in range(2):
            path = f"/work/{last['name']}"
            where, files = run.lines(rank)
            assert where.count(path) == 2
            assert "'--from'" in where
            assert files == "['model.pt', 'sum']"
    finally:
        runner.lab.heal("node01")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2))
def test_what_copies_is_killed_at_any_moment(runner, tmp_path, seed):
    """24 times. What was complete stays so, and what is listed is what the script wrote."""
    chance, home = random.Random(seed), tmp_path / "b"
    run_id = detached(runner, *PATTERN, str(runner.script(WRITES)), "200", "1.5")
    until_complete(runner, home, run_id)
    before, kills = 0, 0
    while kills < 24:
        time.sleep(chance.random() * 4)
        host = chance.choice(("node01", "node01", "node02", "node02", "node03"))
        kill = ["/bin/sh", "-c", "pkill -KILL -x ipexctl-copy"]
        kills += runner.lab.run_in(host, kill).returncode == 0
        now = checkpoints(runner, home, run_id)
        assert now[0]["step"] >= before
        before = now[0]["step"]
        assert len(now) <= 3  # one host has removed one that the other still lists
    last = until_complete(runner, home, run_id, before + 1)[0]  # it still works
    assert second(runner, home, "stop", run_id, "-t", "1").returncode == 0
    for row in checkpoints(runner, home, run_id):
        fetched(runner, home, run_id, row["step"])
    assert checkpoints(runner, home, run_id)[0]["step"] >= last["step"]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8))
def test_power_is_cut_at_any_moment(runner, tmp_path, seed):
    """Of the writer or its partner: the last one that was complete is on the other."""
    chance, home = random.Random(seed), tmp_path / "b"
    words = (str(runner.script(WRITES)), "200", "1.5")
    run_id = detached(runner, *PATTERN, "--host-timeout", "5", *words)
    until_complete(runner, home, run_id)
    time.sleep(chance.random() * 8)
    before = checkpoints(runner, home, run_id)[0]["step"]
    host = chance.choice(("node01", "node02"))
    runner.lab.fault(host, "kill")
    try:
        found = checkpoints(runner, home, run_id)
        assert found[0]["step"] >= before
        for row in found:
            fetched(runner, home, run_id, row["step"])
    finally:
        runner.lab.heal(host)
        second(runner, home, "stop", run_id, "-t", "1")


# rank 0 is killed in the middle of a checkpoint in its first attempt: `files` are what it writes
KILLED = """
import glob, os, signal, sys, time
rank, attempt = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
found = os.environ.get("IPEXCTL_CHECKPOINT")
if found:
    print("read", *(open(found + "/" + name).read() for name in sys.argv[1].split(",")), flush=True)
print("beside it", *sorted(glob.glob("out/**/*.*", recursive=True)), flush=True)
if attempt == "0":
    for place, pause in (word.split("=") for word in sys.argv[2:]):
        if rank == "0" and place:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w") as file:
                file.write(pause.split(":")[0])
        time.sleep(float(pause.split(":")[-1]))
    if rank == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
"""


def killed(runner, pattern: str, names: str, *writes: str):
    """`writes`: PATH=TEXT:SECONDS. The end of the last attempt is returned."""
    options = ("-ppn", "1", "--restarts", "3", "--checkpoints", pattern)
    run = runner.start(*options, str(runner.script(KILLED)), names, *writes)
    return run, run.finish(seconds=300)


def notes_of(run) -> str:
    return "\n".join(event["text"] for event in run.events if event["event"] == "note")


def test_two_plain_names_are_laid_out_as_they_were_at_one_moment(runner):
    """Model of step 1 and 2, optimizer of step 1: nobody reads a mix, also not on the host that has
    the newer model."""
    pair = ("out/model.pt=1:0", "out/optim.pt=1:16", "out/model.pt=2:8")
    run, result = killed(runner, "out/*.pt", "model.pt,optim.pt", *pair)
    assert (result["exit_code"], result["ended_by"]) == (0, "ranks")
    for rank in range(3):
        assert run.lines(rank)[-2:] == ["read 1 1", "beside it out/model.pt out/optim.pt"]
    notes = notes_of(run)
    assert "out/model.pt and out/optim.pt are taken together as one checkpoint" in notes
    assert f".ipexctl-aside/{run.run_id}-r02" in notes


def test_a_second_file_that_comes_late_is_waited_for(runner):
    writes = ("out/ck-1/a.json=1:0", "out/ck-1/b.json=1:16", "out/ck-2/a.json=2:12")
    run, result = killed(runner, "out/ck-*", "a.json,b.json", *writes)
    assert (result["exit_code"], result["ended_by"]) == (0, "ranks")
    for rank in range(3):
        beside = "beside it out/ck-1/a.json out/ck-1/b.json"
        assert run.lines(rank)[-2:] == ["read 1 1", beside]


def test_half_a_checkpoint_that_nothing_tells_apart_costs_one_attempt(runner):
    """The first one of a run, and its second file has not come yet."""
    run, result = killed(runner, "out/ck-*", "a.json,b.json", "out/ck-1/a.json=1:16")
    assert (result["exit_code"], result["ended_by"]) == (0, "ranks")
    assert run.lines(0)[-1] == "beside it"
    notes = notes_of(run)
    assert "from the beginning: no earlier checkpoint is complete; skipped: out/ck-1: " in notes
    assert "FileNotFoundError" in notes
