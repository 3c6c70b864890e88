"""A run whose controller is suspended, or cut off from all its hosts: it comes back to it."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import time

import pytest

from tests.run_lab.test_ps_lab import listed, second

COUNT = (
    "import os, sys, time\n"
    "for i in range(int(sys.argv[1])): print('step', i, flush=True); time.sleep(0.1)\n"
    "sys.exit(3 * (os.environ['RANK'] == '1'))\n"
)


class OnTerminal:
    """A run in a terminal, which nobody reads before `read`."""

    def __init__(self, runner, *words: str) -> None:
        self.ours, theirs = pty.openpty()
        env = {
            k: v for k, v in runner.environment().items() if k != "CI"
        }  # no terminal is one there
        self.said = b""
        self.process = subprocess.Popen(
            runner.argv("--ui", "plain", *words), stdin=theirs, stdout=theirs, stderr=theirs,
            cwd=runner.folder, env=env,
        )  # fmt: skip
        os.close(theirs)
        runner.started.append(self.process)

    def until(self, word: str, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while word.encode() not in self.said:
            assert time.monotonic() < end, self.said
            self.said += os.read(self.ours, 1 << 16)

    def steps(self, rank: int) -> list[int]:
        lines = self.said.decode().replace("\r", "").splitlines()
        return [int(x.split("step ")[1]) for x in lines if f" r0{rank} | step " in x]


def cut_off(runner, word: str) -> None:
    """`word`: add or del. What hosts send to this machine is dropped; they reach each other."""
    for name, host in runner.lab.hosts.items():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to:
            to.connect((host.address, 9))
            ours = to.getsockname()[0]
        done = runner.lab.run_in(name, ["ip", "route", word, "blackhole", ours], user="root")
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("how", ["suspended", "cut off"])
@pytest.mark.parametrize("seconds", [
    20, pytest.param(300, marks=[pytest.mark.soak, pytest.mark.timeout(600)]),
])  # fmt: skip
def test_a_controller_that_was_away_shows_every_line_once(
    namespaces, request, runner, tmp_path, how, seconds
):
    if how == "cut off":
        request.getfixturevalue("full_rung")  # elsewhere this machine has another way in
    script = str(runner.script(COUNT))
    steps = 10 * seconds + 100
    run = OnTerminal(runner, "-n", "3", "--host-timeout", "4", script, str(steps))
    run.until("r02 | step 5")
    if how == "suspended":
        run.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        run.process.send_signal(signal.SIGCONT)
    else:
        cut_off(runner, "add")
        try:
            time.sleep(seconds)
        finally:
            cut_off(runner, "del")
    run.until("rank 1 on node02 exited with code 3", seconds=90)
    assert run.process.wait(30) == 3
    for rank in range(3):
        assert run.steps(rank) == list(range(steps))
    run_id = run.said.decode().split("run ")[1].split(":")[0]
    assert listed(runner, tmp_path / "two", run_id)["exit_code"] == 3
    assert runner.gone(run_id, seconds=5) == {}


def test_without_any_host_it_says_so_and_ctrl_c_leaves_the_run(full_rung, runner, tmp_path):
    run = OnTerminal(runner, "-n", "3", "--host-timeout", "4", str(runner.script(COUNT)), "1000")
    run.until("r02 | step 5")
    cut_off(runner, "add")
    try:
        run.until("node01: no connection from this machine; the run continues if its hosts are up")
        run.process.send_signal(signal.SIGINT)
        run.until("ipexctl stop ")
        assert run.process.wait(30) != 0
    finally:
        cut_off(runner, "del")
    run_id = run.said.decode().split("ipexctl stop ")[1].split()[0]
    row = listed(runner, tmp_path / "two", run_id)
    assert second(runner, tmp_path / "two", "stop", run_id, "-t", "0").returncode == 0
    assert (row["state"], row["hosts_alive"]) == ("running", ["node01", "node02", "node03"])
    assert runner.gone(run_id, seconds=5) == {}
