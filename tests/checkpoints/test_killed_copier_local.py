"""The process that copies checkpoints, its guardian and their supervisor, killed or frozen."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipexctl.common.waiting import wait_until
from ipexctl.remote.checkpoints.copy_link import WORKER
from ipexctl.remote.rank.rank_wrapper import GUARDIAN, SUPERVISOR
from tests.hub.test_killed_supervisors_local import kill, of
from tests.processes import gone
from tests.run.test_ps_local import Here

# writes a checkpoint as soon as there is a file of its name in HOME, and ends with `end`
WRITES = """
import os, time, zipfile
home = os.environ["HOME"]
while not os.path.exists(home + "/end"):
    time.sleep(0.05)
    for step in (7, 8):
        folder = "out/c-%d" % step
        if os.environ["RANK"] != "0" or os.path.exists(folder):
            continue
        if os.path.exists(home + "/%d" % step):
            os.makedirs(folder)
            with zipfile.ZipFile(folder + "/model.pt", "w") as made:
                made.writestr("data", "x" * 5000)
"""


class Writer:
    """A run of two ranks on this machine that writes a checkpoint when it is told to."""

    def __init__(self, here: Here) -> None:
        self.here, self.home = here, Path(here.env["HOME"])
        (here.code / "write.py").write_text(WRITES)
        (here.code / "out/c-0").mkdir(parents=True)
        (here.code / "out/c-0/config.json").write_text("{}")
        words = ("-n", "2", "--force", "--checkpoints", "out/c-*", "write.py")
        done = here.call("run", "-d", *words)
        assert done.returncode == 0, done.stderr
        self.worker = self.only(WORKER)

    def only(self, name: str) -> int:
        (pid,) = of(self.here, name)
        return pid

    def write(self, step: int) -> None:
        (self.home / str(step)).touch()
        path = self.home / f".ipexctl/runs/*/work/out/c-{step}/model.pt"
        assert wait_until(lambda: [*self.home.glob(str(path.relative_to(self.home)))], 60, 0.05)

    def steps(self) -> list[int]:
        asked = self.here.call("checkpoints", "@last", "--json")
        rows = json.loads(asked.stdout)["checkpoints"] if asked.returncode == 0 else []
        return [row["step"] for row in rows if row["complete"]]

    def has(self, *steps: int) -> bool:
        return bool(wait_until(lambda: self.steps() == list(steps), 60, 0.5))

    def ends_well(self) -> bool:
        (self.home / "end").touch()
        return self.here.call("wait", "@last").returncode == 0

    def leaves_none(self) -> bool:
        names = (WORKER, GUARDIAN, SUPERVISOR, "python3")
        return bool(wait_until(lambda: not of(self.here, *names), 30, 0.05))


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    here = Here(tmp_path)
    made = Writer(here)
    yield made
    for pid in of(here, GUARDIAN, WORKER, SUPERVISOR):
        os.kill(pid, signal.SIGCONT)
    here.call("stop", "@last", "-t", "0")


def test_a_killed_worker_is_replaced_and_knows_which_files_are_older_than_the_ranks(
    writer: Writer,
) -> None:
    os.kill(writer.worker, signal.SIGSTOP)
    writer.write(7)
    os.kill(writer.worker, signal.SIGKILL)
    killed = time.monotonic()
    assert gone(writer.worker)
    assert wait_until(lambda: of(writer.here, WORKER), 30, 0.02)
    assert time.monotonic() - killed > 1.9
    assert writer.has(7)
    assert writer.ends_well() and writer.leaves_none()


def test_a_frozen_guardian_replaces_the_worker_when_it_goes_on(writer: Writer) -> None:
    guardian = writer.only(GUARDIAN)
    os.kill(guardian, signal.SIGSTOP)
    os.kill(writer.worker, signal.SIGKILL)
    os.kill(guardian, signal.SIGCONT)
    writer.write(7)
    assert writer.has(7)
    assert writer.ends_well() and writer.leaves_none()


def test_copying_goes_on_without_the_guardian_and_ends_with_the_supervisor(writer: Writer) -> None:
    kill(writer.here, GUARDIAN)
    writer.write(7)
    assert writer.has(7) and of(writer.here, WORKER) == [writer.worker]
    kill(writer.here, SUPERVISOR)
    assert gone(writer.worker)


def test_a_run_without_its_guardian_ends_well_with_its_worker(writer: Writer) -> None:
    kill(writer.here, GUARDIAN)
    assert writer.ends_well() and writer.leaves_none()


def test_a_worker_that_nobody_replaces_is_missed_and_the_run_goes_on(writer: Writer) -> None:
    kill(writer.here, GUARDIAN)
    kill(writer.here, WORKER)
    assert writer.ends_well() and writer.leaves_none()
    said = writer.here.call("attach", "@last", "--ui", "plain")
    assert "the process that copies them has ended" in said.stdout + said.stderr


@pytest.mark.parametrize("end", ["end", "stop", "kill"])
def test_a_frozen_worker_does_not_outlive_the_run(writer: Writer, end: str) -> None:
    os.kill(writer.worker, signal.SIGSTOP)
    if end == "kill":
        kill(writer.here, SUPERVISOR)
    elif end == "stop":
        assert writer.here.call("stop", "@last", "-t", "1").returncode == 0
    else:
        assert writer.ends_well()
    assert gone(writer.worker) and writer.leaves_none()


BUSY = """
import socket, sys, time
from ipexctl.remote.checkpoints.copy_link import end_with_supervisor
from ipexctl.remote.own_process import start_thread
start_thread(end_with_supervisor, socket.socket(fileno=int(sys.argv[1])))
print("busy", flush=True)
time.sleep(600)
"""


def test_a_worker_that_follows_a_long_order_ends_with_the_supervisor() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = [sys.executable, "-c", BUSY, str(theirs.fileno())]
    with subprocess.Popen(words, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE) as busy:
        theirs.close()
        assert busy.stdout is not None and busy.stdout.readline() == b"busy\n"
        ours.send(b"an order")
        assert busy.poll() is None
        ours.close()
        assert busy.wait(60) == 0
