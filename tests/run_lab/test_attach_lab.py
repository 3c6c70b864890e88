"""A run whose controller is suspended, or cut off from all its hosts: it comes back to it.
One that a fault has ended: all commands tell one story, and show every line on hosts that are up.
"""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import time
from collections import Counter

import pytest

from tests.run_lab.test_ps_lab import listed, second
from tests.run_lab.test_run_faults import SLEEP, up

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
    20, pytest.param(300, marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
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


# --- one story ------------------------------------------------------------------------------------

STEPS = "import os, time\nfor i in range(600): print('step', i, flush=True); time.sleep(0.1)\n"
KILL, STOP = "pkill -KILL -x ipexctl-run", "pkill -STOP -x ipexctl-run"
BOTH = "pkill -KILL -x ipexctl-guard; " + KILL
FAULTS = {
    "supervisor killed": ("node02", KILL),
    "hub killed": ("node01", KILL),
    "hub and its guardian killed": ("node01", BOTH),
    "hub frozen": ("node01", STOP),
    "other host off": ("node02", "off"),
    "hub's host off": ("node01", "off"),
}


def on_disk(runner, run_id: str, off: str) -> Counter[tuple[int, str]]:
    """Lines of ranks on the hosts that are up, read without ipexctl."""
    found: Counter[tuple[int, str]] = Counter()
    for name in runner.lab.hosts:
        if name != off:
            look = f"cd /home/trainer/.ipexctl/runs/{run_id}/logs && grep '' /dev/null rank*"
            out = runner.lab.run_in(name, ["/bin/sh", "-c", look]).stdout
            for line in (out.decode() if isinstance(out, bytes) else out).splitlines():
                file, _, text = line.partition(":")
                found[int(file[4:9]), text] += 1
    return found


def shown(text: str) -> Counter[tuple[int, str]]:
    events = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return Counter((e["rank"], e["text"]) for e in events if e.get("event", "line") == "line")


@pytest.mark.parametrize("time_of", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in "2345")])
@pytest.mark.parametrize("fault", FAULTS)
def test_after_a_fault_all_commands_tell_one_story(full_rung, runner, tmp_path, fault, time_of):
    host, strike = FAULTS[fault]
    began = runner.plain("-d", "-n", "3", "--host-timeout", "4", str(runner.script(STEPS)))
    assert began.returncode == 0, began.stderr
    run_id = began.stdout.split()[-1]
    time.sleep(1.0)
    off = host if strike == "off" else ""
    try:
        if off:
            runner.lab.fault(host, "kill")
        else:
            assert runner.lab.run_in(host, ["/bin/sh", "-c", strike]).returncode == 0
        waited = second(runner, tmp_path / "two", "wait", run_id, "--json")
        row = json.loads(waited.stdout)
        attached = second(runner, tmp_path / "two", "attach", run_id, "--json")
        ps = listed(runner, tmp_path / "two", run_id)
        logs = second(runner, tmp_path / "two", "logs", run_id, "--json")
        lines = on_disk(runner, run_id, off)
    finally:
        if off:
            runner.lab.heal(off)
    keys = ("state", "exit_code", "cause")
    assert [ps[key] for key in keys] == [row[key] for key in keys]
    result = json.loads(attached.stdout.splitlines()[-1])
    assert (result["exit_code"], result["cause"]) == (row["exit_code"], row["cause"])
    assert (waited.returncode, attached.returncode) == (row["exit_code"], row["exit_code"])
    assert (row["state"], row["exit_code"]) == ("failed", 121)
    assert f"{host} was lost: " in row["cause"]
    assert {rank for rank, _ in lines} == {0, 1, 2} - ({int(off[-1]) - 1} if off else set())
    assert shown(attached.stdout) == shown(logs.stdout) == lines
    said = attached.stdout + attached.stderr
    assert (f"the output of {host} is " in said) is bool(off)
    assert runner.gone(run_id, seconds=10) == {}


def test_a_live_viewer_that_sees_a_fault_tells_the_same_story(full_rung, runner, tmp_path):
    """`run` reports what `wait` does, whether the hub or another supervisor was killed."""
    for host in ("node01", "node02"):
        run = runner.start("-n", "3", "--host-timeout", "4", str(runner.script(STEPS)))
        run.until(event="line", text="step 5")
        assert runner.lab.run_in(host, ["/bin/sh", "-c", KILL]).returncode == 0
        result = run.finish()
        row = listed(runner, tmp_path / "two", run.run_id)
        assert (result["exit_code"], result["cause"]) == (row["exit_code"], row["cause"])
        assert (result["exit_code"], "-x" in result["again"]) == (121, False)


@pytest.mark.parametrize("seconds", [0, 14])  # in which the agents, too, give it up
def test_a_controller_that_stood_still_says_so(runner, tmp_path, seconds):
    """And no host is blamed for it."""
    run = runner.start("--host-timeout", "2", "-n", "3", str(runner.script(SLEEP)))
    up(run, 3)
    run.process.send_signal(signal.SIGSTOP)
    assert runner.gone(run.run_id, seconds=10) == {}
    time.sleep(seconds)
    before = listed(runner, tmp_path / "two", run.run_id)
    run.process.send_signal(signal.SIGCONT)
    result = run.finish()
    row = listed(runner, tmp_path / "two", run.run_id)
    keys = ("state", "exit_code", "cause")
    assert [row[key] for key in keys] == [before[key] for key in keys]
    assert (row["state"], row["exit_code"], row["cause"]) == ("failed", 121, result["cause"])
    assert (result["exit_code"], result["ended_by"]) == (121, "controller-lost")
    assert "-x" not in result["again"].split()
    notes = [event["text"] for event in run.events if event["event"] == "note"]
    assert any(" was suspended for " in text for text in notes)
