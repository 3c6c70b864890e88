"""A run that a fault has ended: `wait`, `attach`, `ps` and `logs` say the same of it, from a second
controller; and every line that is on disk on a host that can be reached is shown."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter

import pytest

from tests.run_lab.test_ps_lab import listed, second
from tests.run_lab.test_run_faults import SLEEP, up

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
    assert (f"the output of {host} is not complete" in said) is bool(off)
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
    assert any(text.startswith("this machine was suspended for ") for text in notes)
