"""Two people queue twelve runs on three hosts at once; a host is killed and comes back, and
a command that waits is killed: no two runs on one host at a time, none forgotten, first come first
served among those that need the same host.

`IPEXCTL_SOAK_QUEUES` sets the number of rounds (1). `make soak` only.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ipexctl.common.attempt_record import RunQueued, WrittenLine
from ipexctl.lab import HostSpec, Lab, LabSpec
from tests.practice_hosts import LabRoot, start_lab
from tests.soak.test_partitions import MAKE, Hosts

pytestmark = pytest.mark.soak
ROUNDS = int(os.environ.get("IPEXCTL_SOAK_QUEUES", "1"))
TRAIN = """
import os, time
log = open(os.path.expanduser("~/spans"), "a", 1)
began = time.time()
time.sleep(1.5)
log.write("%s %.3f %.3f\\n" % (os.environ["IPEXCTL_RUN_ID"], began, time.time()))
"""
PLANS = ("123", "12", "23", "13", "1", "2")  # the hosts of each run; each person has all of these


@pytest.fixture
def lab(lab_root: LabRoot) -> Iterator[Lab]:
    made = start_lab(LabSpec(name=f"queue{os.getpid()}", hosts=(HostSpec(),) * 3), lab_root)
    try:
        for host in made.hosts:
            done = made.run_in(host, ["/bin/sh", "-c", MAKE], user="trainer")
            assert done.returncode == 0, done.stderr
        yield made
    finally:
        made.down()


def person(lab: Lab, folder: Path) -> Hosts:
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    return Hosts(lab, folder)


def words_of(plan: str) -> list[str]:
    hosts = ",".join(f"node0{digit}" for digit in plan)
    return ["run", "--queue", "-ppn", "1", "--host-timeout", "12s", "-l", hosts, "train.py"]


def queue_all(who: Hosts, plans: list[str]) -> dict[str, str]:
    """Return {run: its hosts}."""
    ids = {}
    for plan in plans:
        words = words_of(plan)
        done = who.call(words[0], "-d", *words[1:])
        assert done.returncode == 0, done.stderr
        ids[done.stdout.split()[-1]] = plan
    return ids


def listing(who: Hosts) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(who.call("ps", "-a", "--json").stdout)
    return document


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_runs_wait_for_each_other(lab: Lab, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    people = [person(lab, tmp_path / name) for name in ("ann", "bob")]
    orders = [chance.sample(PLANS, len(PLANS)) for _ in people]
    watching = people[0].start(*words_of("12"))  # killed below: the laptop is gone
    with ThreadPoolExecutor() as pool:
        queued = {
            run: plan for ids in pool.map(queue_all, people, orders) for run, plan in ids.items()
        }
    watching.kill()
    watching.wait()
    before = {row["run_id"] for row in listing(people[1])["runs"]}
    queued |= dict.fromkeys(before - queued.keys(), "12")
    assert len(queued) == 13
    victim = chance.choice(("node01", "node02", "node03"))
    time.sleep(chance.uniform(0, 4))
    lab.fault(victim, "kill")
    time.sleep(chance.uniform(1, 5))
    lab.heal(victim)
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        document = listing(people[1])  # it starts keepers again
        rows = {row["run_id"]: row for row in document["runs"]}
        active = any(
            row["state"] in ("queued", "starting", "running", "stalled", "stopping")
            for row in rows.values()
        )
        if not active and not document["not_asked"]:
            break
        time.sleep(2)
    hit = (f"{victim} was lost", f"{victim} was switched off", f"{victim}: lost")
    forgotten = {
        run: (row["state"], row["cause"])
        for run, row in rows.items()
        if row["state"] != "done" and not any(words in str(row["cause"]) for words in hit)
    }
    assert not forgotten
    left = {
        (run, name): files_of(people[0], name, run)
        for run in queued.keys() - rows.keys()
        for name in lab.hosts
    }
    assert rows.keys() == queued.keys(), (victim, queued, left)
    lost = {run for run, row in rows.items() if row["state"] != "done"}
    assert len(lost) <= 2  # those that ran on the host when it was killed
    for name in lab.hosts:
        spans = [line.split() for line in people[0].read(name, "~/spans")]
        spans.sort(key=lambda span: float(span[1]))
        assert {run for run, _, _ in spans} >= {
            run for run, plan in queued.items() if name[-1] in plan and run not in lost
        }
        for (one, _, end), (other, begin, _) in itertools.pairwise(spans):
            assert float(end) <= float(begin), (name, one, other)
        # those that lacked the killed host let later runs go first
        placed = [run for run, _, _ in spans if victim[-1] not in queued[run]]
        places = [queued_at(people[0], run, rows[run]["hosts"][0]) for run in placed]
        assert places == sorted(places), (name, spans)


def files_of(who: Hosts, host: str, run: str) -> list[str]:
    """Return the files of a run on a host."""
    heads = "head -c 600 attempts* queued* journals/* | tr -cd ' -~\\n'"
    look = f"cd ~/.ipexctl/runs/{run} 2>&1 && {heads}; ls -laR"
    done = who.lab.run_in(host, ["/bin/sh", "-c", look], user="trainer")
    return str(done.stdout).splitlines()


def queued_at(who: Hosts, run: str, host: str) -> float:
    """Return the time that is the run's place in the queue."""
    lines = who.read(host, f"~/.ipexctl/runs/{run}/attempts.{host}")
    first = WrittenLine.read(json.loads(lines[0])).line
    assert isinstance(first, RunQueued)
    return first.since
