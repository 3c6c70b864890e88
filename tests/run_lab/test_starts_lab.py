"""A start whose controller is killed: the run is there on all its hosts, or on none."""

from __future__ import annotations

import json
import random
import subprocess
import time

import pytest

from tests.run_lab.test_ps_lab import second

LONG = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"


def watched(runner) -> dict[str, int]:
    """Supervisors on each host."""
    found = {}
    for name in runner.lab.hosts:
        done = runner.lab.run_in(name, ["pgrep", "-c", "-x", "ipexctl-run"])
        found[name] = int(done.stdout or 0)
    return found


def runs(runner, home) -> list[dict]:
    done = second(runner, home, "ps", "-a", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["runs"]


def settled(runner, home, before: set[str]) -> str:
    """The id of the new run that is there on all hosts, "" if there is none on any."""
    deadline = time.monotonic() + 30
    while True:
        new = [row for row in runs(runner, home) if row["run_id"] not in before]
        there = watched(runner)
        if not new and not any(there.values()):
            return ""
        full = len(new) == 1 and (new[0]["state"], new[0]["ranks_started"]) == ("running", 3)
        if full and set(there.values()) == {1} and len(new[0]["hosts_alive"]) == 3:
            return new[0]["run_id"]
        assert time.monotonic() < deadline, (new, there)
        time.sleep(0.3)


@pytest.mark.parametrize("starts", [
    pytest.param(4, marks=pytest.mark.timeout(1800)),
    pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(5400)]),
])  # fmt: skip
def test_a_killed_start_is_fully_there_or_fully_absent(namespaces, runner, tmp_path, starts):
    script, home = str(runner.script(LONG)), tmp_path / "two"
    began = time.monotonic()
    argv = runner.argv("-d", "-n", "3", "--host-timeout", "4", script)
    first = subprocess.run(
        argv, check=True, cwd=runner.folder, env=runner.environment(), stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    longest = time.monotonic() - began
    assert second(runner, home, "stop", first.stdout.strip(), "-t", "0").returncode == 0
    there = 0
    random.seed(starts)
    for number in range(starts):
        before = {row["run_id"] for row in runs(runner, home)}
        start = subprocess.Popen(
            runner.argv("-d", "-n", "3", "--host-timeout", "4", script), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=runner.folder,
            env=runner.environment(),
        )  # fmt: skip
        # evenly over most of it; beside other tests, the measured start may be the longest
        time.sleep(longest * (0.2 + 0.8 * (number + random.random()) / starts))
        start.kill()
        start.wait()
        if run_id := settled(runner, home, before):
            there += 1
            assert second(runner, home, "stop", run_id, "-t", "0").returncode == 0
            assert runner.gone(run_id, seconds=5) == {}
    assert set(watched(runner).values()) == {0}
    print(f"{there} of {starts} runs were there")
    assert there < starts  # the first is killed before its hosts are ready


HERE = "this command"
STEPS = [
    "python",
    "imported",
    "script",
    "ssh",
    "project",  # while the hosts start their Pythons
    "hosts",
    "plan",
    "preflight",
    "sync",
    "run",
    "prune",
]
ASKED = [
    "facts.probe.facts",  # both of these went with the agent
    "run.run_environment.find",
    "project.synced_folders.make",
    "run.run_watch.conclude",
    "remove.prune_rules.prune",
]


def test_a_start_asks_each_host_three_times(runner, tmp_path) -> None:
    """Once with the agent, once for the project, once to begin; of a run like the one before."""
    script = runner.script("print('up')\n")
    assert runner.plain(str(script)).returncode == 0
    file = tmp_path / "trace.json"
    env = runner.environment(IPEXCTL_TRACE=str(file))  # of a whole process
    subprocess.run(runner.argv(str(script)), check=True, cwd=runner.folder, env=env)
    events = json.loads(file.read_text())["traceEvents"]
    lanes = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    told: dict[str, list[str]] = {name: [] for name in lanes.values()}
    asked: dict[str, list[str]] = {name: [] for name in lanes.values()}
    for event in (e for e in events if e["ph"] != "M"):
        told[lanes[event["tid"]]].append(event["name"])
        if "asked" in event["args"]:
            asked[lanes[event["tid"]]].append(event["name"])
    assert told[HERE] == STEPS
    assert {name: sorted(ops) for name, ops in asked.items() if name != HERE} == dict.fromkeys(
        runner.lab.hosts, sorted(ASKED)
    )
    for name in runner.lab.hosts:
        steps = [t for t in told[name] if t in ("connect", "Ready", "RankStarted", "RunDone")]
        assert [*dict.fromkeys(steps)] == ["connect", "Ready", "RankStarted", "RunDone"]
