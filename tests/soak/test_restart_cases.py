"""Cases that once ended a run with --restarts, or told it in two ways: two hosts lost 4 s apart, a
host that leads frozen and thawed, a host that sends what is no message, a partner whose disk is
full. `IPEXCTL_SOAK_TIMES` sets how often each is tried (1). `make soak` only.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ipexctl.lab import HostSpec, Lab, LabSpec
from tests.practice_hosts import LabRoot, start_lab
from tests.soak import test_partitions
from tests.soak.test_partitions import (
    MAKE,
    OPTIONS,
    REPO,
    STEPS,
    TRAIN,
    Hosts,
    first_steps,
    one_story,
)

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
TIMES = range(int(os.environ.get("IPEXCTL_SOAK_TIMES", "1")))
MB = 1 << 20
SAYS = "            self.send(name, HostReported(report))\n"
ODD = """            if self.name == "node04":
                reports = [[], 7, {"over": 3}, {"cleared": {"checkpoints": [7]}}]
                odd = [{"kind": "HostReported", "report": report} for report in reports]
                odd += [{"kind": "Vote", "vote": vote, "numbers": {}} for vote in (7, "x")]
                odd += [{"kind": "LeaderOrdered", "order": one, "term": "y"} for one in ([], {})]
                odd += [{"kind": kind, "report": {"stop": "x"}} for kind in ("Part", 7, [], None)]
                odd += [{"part": {}}]
                for one in odd:
                    self.send(name, type("Odd", (), {"document": lambda self: one})())
"""


@pytest.fixture
def hosts(lab_root: LabRoot, tmp_path: Path) -> Iterator[Hosts]:
    spec = LabSpec(name=f"case{os.getpid()}", hosts=(HostSpec(disk=1500 * MB),) * 5)
    made: Lab = start_lab(spec, lab_root)
    try:
        for host in made.hosts:
            assert made.run_in(host, ["/bin/sh", "-c", MAKE], user="trainer").returncode == 0
        (tmp_path / "train.py").write_text(TRAIN)
        yield Hosts(made, tmp_path)
    finally:
        made.down()


def started(hosts: Hosts) -> str:
    done = hosts.call(*OPTIONS)
    assert done.returncode == 0, done.stderr
    time.sleep(25)  # the first checkpoints are complete
    return done.stdout.split()[-1]


def attempts(hosts: Hosts, run_id: str) -> list[dict[str, Any]]:
    rows = json.loads(hosts.call("ps", "-a", "--json").stdout)["runs"]
    kept = ("run_id", "state", "cause", "exit_code")
    of_run = (row for row in rows if row["run_id"].startswith(run_id))
    return [{key: row[key] for key in kept} for row in of_run]


def whole_story(hosts: Hosts, run_id: str) -> list[dict[str, Any]]:
    """The attempts as `ps` lists them, once the run has ended and all commands agree."""
    one_story(hosts, run_id)
    rows = attempts(hosts, run_id)
    print(json.dumps(rows), flush=True)
    assert rows[0]["state"] == "done"
    assert hosts.call("wait", run_id).returncode == 0
    shown = hosts.call("attach", "--ui", "plain", run_id)
    assert shown.returncode == 0
    said = (shown.stdout + shown.stderr).splitlines()
    for number, row in enumerate(reversed(rows[1:]), 1):
        (line,) = (one for one in said if f"attempt {number} on" in one)
        assert row["cause"].split()[0] in line
    return rows


def last_complete(hosts: Hosts, run_id: str) -> dict[str, Any]:
    rows = json.loads(hosts.call("checkpoints", run_id, "--json").stdout)["checkpoints"]
    return next(row for row in rows if row["complete"] and len(row["hosts"]) == 2)


@pytest.mark.parametrize("_again", TIMES)
def test_two_hosts_that_are_lost_one_after_the_other_cost_one_restart(hosts, _again) -> None:
    run_id = started(hosts)
    hosts.lab.fault("node02", "kill")
    lost = time.time()
    time.sleep(4)
    hosts.lab.fault("node03", "kill")
    time.sleep(60)
    for host in ("node02", "node03"):
        hosts.lab.heal(host)
    rows = whole_story(hosts, run_id)
    first_steps(hosts, STEPS)
    steps = [line.split() for line in hosts.read("node01", "steps")]
    first = min(float(at) for attempt, _, at in steps if attempt == "1")
    print(f"first new step after {first - lost:.1f} s", flush=True)
    assert len(rows) == 2


@pytest.mark.parametrize("_again", TIMES)
def test_a_host_that_led_and_was_frozen_does_not_tell_another_end(hosts, _again) -> None:
    run_id = started(hosts)
    hosts.lab.fault("node01", "freeze")
    time.sleep(45)
    before = attempts(hosts, run_id)
    hosts.lab.heal("node01")
    time.sleep(10)
    after = attempts(hosts, run_id)
    assert before[-1] == after[-1], (before, after)
    assert "node01" in after[-1]["cause"]
    assert whole_story(hosts, run_id)[-1] == after[-1]


@pytest.mark.parametrize("_again", TIMES)
def test_a_host_that_sends_what_is_no_message_disturbs_nothing(
    hosts, tmp_path, monkeypatch, _again
) -> None:
    shutil.copytree(REPO / "ipexctl", tmp_path / "odd" / "ipexctl")
    keeper = tmp_path / "odd/ipexctl/remote/restart/keeper.py"
    text = keeper.read_text()
    assert SAYS in text
    keeper.write_text(text.replace(SAYS, SAYS + ODD))
    monkeypatch.setattr(test_partitions, "REPO", tmp_path / "odd")
    run_id = started(hosts)
    hosts.lab.fault("node02", "kill")
    time.sleep(30)
    hosts.lab.heal("node02")
    rows = whole_story(hosts, run_id)
    first_steps(hosts, STEPS)
    assert len(rows) == 2
    notes = hosts.read("node01", f".ipexctl/runs/{run_id}/attempts.*")
    assert any("KeeperNote" in line and "node04 sent" in line for line in notes)


@pytest.mark.parametrize("_again", TIMES)
def test_a_partner_whose_disk_is_full_is_replaced(hosts, tmp_path, _again) -> None:
    large = 'open(folder + "/ballast", "wb").write(bytes(range(256)) * (8 << 12))\n        open('
    (tmp_path / "train.py").write_text(TRAIN.replace("open(folder", large + "folder", 1))
    fill = "d=$(df --output=avail -k . | tail -1); head -c $(((d - 4096) * 1024)) /dev/zero > fill"
    run_id = started(hosts)
    row = last_complete(hosts, run_id)
    writer, partner = row["hosts"]
    done = hosts.lab.run_in(partner, ["/bin/sh", "-c", f"cd && {fill}"], user="trainer")
    assert done.returncode == 0, done.stderr
    full_at = row["step"]
    time.sleep(25)
    row = last_complete(hosts, run_id)
    print(json.dumps(row), flush=True)
    assert row["step"] > full_at + 40
    assert partner not in row["hosts"]
    hosts.lab.fault(writer, "kill")
    lost, begun = time.time(), dict[str, tuple[int, float]]()
    while not begun.keys() - {"0"} and time.time() < lost + 120:
        time.sleep(2)
        steps = [line.split() for line in hosts.read("node05", "steps")]
        begun = {attempt: (int(step), float(at)) for attempt, step, at in reversed(steps)}
    (again,) = begun.keys() - {"0"}
    print(f"attempt {again}: first new step after {begun[again][1] - lost:.1f} s", flush=True)
    assert begun[again][0] >= row["step"], begun
    hosts.lab.heal(writer)
    print(json.dumps(attempts(hosts, run_id)), flush=True)
    done = hosts.lab.run_in(partner, ["/bin/sh", "-c", "rm fill"], user="trainer")
    assert hosts.call("stop", run_id).returncode == 0
