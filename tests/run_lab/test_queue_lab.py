"""Runs with --queue on hosts of a lab: they wait for each other, also without their command."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

from ipexctl.common.waiting import wait_until
from tests.run_lab.test_ps_lab import second
from tests.run_lab.test_run_faults import SLEEP, up
from tests.run_lab.test_secret import HALVES, SECRET, found_on

SHORT = "import os\nprint('up', flush=True)\n"


class Cluster:
    """Queued runs, as another controller lists them."""

    def __init__(self, runner, home: Path) -> None:
        self.runner, self.home = runner, home

    def call(self, *words: str) -> str:
        done = second(self.runner, self.home, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def queue(self, *words: str, script: str = SHORT) -> str:
        path = self.runner.script(script, "queued.py")
        done = self.runner.plain("--queue", "-d", *words, str(path))
        assert done.returncode == 0, done.stderr
        self.said = done.stderr
        return done.stdout.strip()

    def row(self, run_id: str) -> dict:
        rows = json.loads(self.call("ps", "-a", "--json"))["runs"]
        return next(row for row in rows if row["run_id"] == run_id)

    def comes_to(self, run_id: str, state: str, waits: str = "") -> bool:
        def is_there() -> bool:
            row = self.row(run_id)
            return row["state"] == state and waits in (row["waits"] or "")

        return bool(wait_until(is_there, 60, 0.5))


def test_runs_wait_for_the_cores_in_the_order_in_which_they_came(runner, tmp_path):
    cluster = Cluster(runner, tmp_path / "two")
    run = runner.start("-n", "3", str(runner.script(SLEEP)))
    up(run, 3)
    first = cluster.queue("-n", "3", "--name", "lr-0.1")
    assert cluster.comes_to(
        first, "queued", f"place 1 in the queue; on its cores: {run.run_id} of "
    )
    second_run, third = (cluster.queue("-n", "3") for _ in range(2))
    assert f"{third} is queued: place 3 in the queue; before it: lr-0.1, " in cluster.said
    assert cluster.comes_to(second_run, "queued", f"place 2 in the queue; before it: {first} of ")
    assert f"{second_run} is stopped" in cluster.call("stop", second_run)
    assert cluster.comes_to(third, "queued", f"place 2 in the queue; before it: {first} of ")
    why = json.loads(cluster.call("why", third, "--json"))
    assert (why["state"], why["waits"]) == ("queued", cluster.row(third)["waits"])
    assert "  place 2 in the queue; before it: lr-0.1\n" in cluster.call("why", third)
    assert "  place 2 in the queue; before it: lr-0.1\n" in cluster.call("ps", "-v")
    shown = cluster.call("ps")
    nearest, last = (rf"{name}\S* +queued   3      node" for name in ("lr-0.1", third[:15]))
    assert re.search(rf"{nearest}.*  place 1, cores used by {run.run_id}\n{last}", shown)
    assert re.search(rf"{last}.*  place 2, after lr-0.1\n", shown)
    watched = runner.start("--queue", "-n", "1", "-l", "node01", str(runner.script(SHORT)))
    watched.until(event="plan")
    run.process.send_signal(signal.SIGTERM)
    assert run.finish()["exit_code"] == 130
    assert cluster.call("logs", "--follow", third).split().count("up") == 3
    assert watched.finish()["exit_code"] == 0
    assert [event["event"] for event in watched.events].count("plan") == 1
    assert cluster.comes_to(first, "done")
    assert cluster.comes_to(third, "done")
    assert cluster.row(second_run)["state"] == "stopped"
    assert [cluster.row(name)["ranks_started"] for name in (first, second_run, third)] == [3, 0, 3]


WAITS_FOR = """
import os, time
print("on", os.uname().nodename, os.environ["MASTER_ADDR"], flush=True)
while not os.path.exists(os.path.expanduser("~/go")):
    time.sleep(0.1)
"""


def test_runs_on_fewer_hosts_than_there_are_begin_on_those_that_are_free(runner, tmp_path):
    cluster, host_names = Cluster(runner, tmp_path / "two"), ("node01", "node02", "node03")
    runs = [cluster.queue("-n", "1", script=WAITS_FOR) for _ in range(4)]
    for run_id in runs[:3]:
        assert cluster.comes_to(run_id, "running")
    taken = [cluster.row(run_id)["hosts"] for run_id in runs[:3]]
    assert sorted(taken) == [[name] for name in host_names]
    assert cluster.comes_to(runs[3], "queued", "place 1 in the queue; on its cores: ")
    assert cluster.row(runs[3])["hosts"] == [*host_names]
    (free,) = taken[1]  # the first host that gets free
    home = runner.lab.run_in(free, ["/bin/sh", "-c", "echo $HOME"], user="trainer").stdout.strip()
    runner.lab.run_in(free, ["touch", f"{home}/go"], user="trainer")
    cluster.call("wait", runs[1])
    cluster.call("rm", runs[1], "-y")  # its keepers stay for a while to tell the others
    assert cluster.comes_to(runs[3], "done")
    assert cluster.row(runs[3])["hosts"] == [free]
    assert f"on {free} 127.0.0.1" in cluster.call("logs", runs[3])
    for run_id in (runs[0], runs[2]):
        cluster.call("stop", run_id)
    assert cluster.comes_to(runs[2], "stopped")
    runner.lab.run_in(free, ["rm", f"{home}/go"], user="trainer")


def test_a_queued_run_whose_command_was_killed_begins(runner, tmp_path):
    cluster = Cluster(runner, tmp_path / "two")
    run = runner.start("-n", "1", "-l", "node02", str(runner.script(SLEEP)))
    up(run, 1)
    waiting = runner.start("--queue", "-n", "2", "-l", "node01,node02", str(runner.script(SHORT)))
    waiting.until(
        event="note", text="queued: Ctrl-C takes it out of the queue, Ctrl-\\ leaves it there"
    )
    assert cluster.comes_to(waiting.run_id, "queued", "on its cores")
    waiting.process.kill()
    run.process.send_signal(signal.SIGTERM)
    assert cluster.comes_to(waiting.run_id, "done")


def test_secrets_of_a_queued_run_are_not_on_a_disk(full_rung, runner, tmp_path, monkeypatch):
    monkeypatch.setenv("CANARY", SECRET)
    cluster, host = Cluster(runner, tmp_path / "two"), "node01"
    runner.lab.run_in(host, ["touch", "/dev/shm/began"])
    run = runner.start("-n", "1", "-l", host, str(runner.script(SLEEP)))
    up(run, 1)
    with_secret = cluster.queue("-n", "1", "-l", host, "--secret-env", "CANARY")
    plain = cluster.queue("-n", "1", "-l", host, "--env", f"PUBLIC={SECRET[::-1]}")
    assert cluster.comes_to(plain, "queued", with_secret)
    assert found_on(runner.lab, host, *HALVES) == []
    found = [path for kind, path in found_on(runner.lab, host, SECRET[::-1]) if kind == "file"]
    assert [Path(path).name for path in found] == [f"queued.{host}"]
    mode = runner.lab.run_in(host, ["stat", "-c", "%a", *found]).stdout
    assert mode.split() == ["600"]
    for run_id in (with_secret, plain, run.run_id):
        cluster.call("stop", run_id)
    assert found_on(runner.lab, host, SECRET[::-1]) == []


def test_a_run_that_was_stopped_stays_stopped_on_a_host_that_was_away(full_rung, runner, tmp_path):
    cluster = Cluster(runner, tmp_path / "two")
    run = runner.start("-n", "1", "-l", "node01", str(runner.script(SLEEP)))
    up(run, 1)
    queued = cluster.queue("-n", "3")
    assert cluster.comes_to(queued, "queued", "on its cores")
    later = cluster.queue("-n", "3")
    runner.lab.fault("node03", "kill")

    def places() -> list[tuple[int, bool]]:
        rows = json.loads(second(runner, cluster.home, "ps", "--json").stdout)["runs"]
        waiting = [row for row in reversed(rows) if row["state"] == "queued"]
        return [(row["place"], "not reached: node03" in row["waits"]) for row in waiting]

    assert wait_until(lambda: places() == [(1, True), (2, True)], 200, 0.5), places()
    assert f"{later} is stopped" in second(runner, cluster.home, "stop", later).stdout
    assert f"{queued} is stopped" in second(runner, cluster.home, "stop", queued).stdout
    runner.lab.heal("node03")
    there = json.loads(cluster.call("ps", "-l", "node03", "--json"))["runs"]
    assert [(row["run_id"], row["state"], row["waits"]) for row in there] == [
        (later, "queued", None), (queued, "queued", None),
    ]  # fmt: skip  # they are not woken: node01 may know more
    assert cluster.row(queued)["state"] == "stopped"
    assert cluster.call("ps", "-l", "node03", "--json") and not [
        row for row in json.loads(cluster.call("ps", "--json"))["runs"] if row["run_id"] == queued
    ]
    cluster.call("stop", run.run_id)


def test_a_queued_run_whose_keepers_have_ended_waits_again_and_is_named(runner, tmp_path):
    cluster = Cluster(runner, tmp_path / "two")
    run = runner.start("-n", "1", "-l", "node01", str(runner.script(SLEEP)))
    up(run, 1)
    queued = cluster.queue("-n", "3", "--name", "bert")
    assert cluster.comes_to(queued, "queued", "on its cores")
    for host in runner.lab.hosts:
        runner.lab.run_in(host, ["/bin/sh", "-c", "kill -9 $(pgrep -x ipexctl-keeper)"])
    said: list[str] = []

    def is_woken() -> bool:
        said.append(" ".join(second(runner, cluster.home, "ps").stderr.split()))
        return " waits again " in said[-1]

    assert wait_until(is_woken, 120, 0.5), said
    assert "note: bert waits again on node[01-03], where its keepers had ended" in said[-1]
    for run_id in (queued, run.run_id):
        cluster.call("stop", run_id)
