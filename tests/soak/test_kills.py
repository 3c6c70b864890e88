"""A run with --restarts whose processes on the hosts are killed or frozen, one after the other: it
ends well, on one story, and no attempt begins from step 0 while a checkpoint exists.

`IPEXCTL_SOAK_KILLS` sets how many cases there are, of 25 kills each (1). `make soak` only.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ipexctl.common.attempt_record import AttemptEnded
from ipexctl.lab import Lab
from ipexctl.remote.checkpoints.copy_link import WORKER
from ipexctl.remote.rank.rank_wrapper import GUARDIAN, SUPERVISOR
from ipexctl.remote.restart.keeper import NAME as KEEPER
from tests.soak import test_partitions
from tests.soak.test_partitions import Hosts

pytestmark = pytest.mark.soak
CASES = int(os.environ.get("IPEXCTL_SOAK_KILLS", "1"))
KILLS = 25
PROCESSES = (KEEPER, KEEPER, SUPERVISOR, GUARDIAN, WORKER, WORKER)
STEPS = 2200
lab = test_partitions.lab


def send(hosts: Hosts, signal: str, host: str, process: str) -> bool:
    """To the oldest process of that name."""
    done = hosts.lab.run_in(host, ["pkill", f"-{signal}", "-o", "-x", process])
    return done.returncode == 0


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("seed", range(CASES))
def test_a_run_ends_well_though_its_processes_are_killed(
    lab: Lab, tmp_path: Path, seed: int
) -> None:
    hosts, chance = Hosts(lab, tmp_path), random.Random(seed)
    text = test_partitions.TRAIN.replace(str(test_partitions.STEPS), str(STEPS))
    (tmp_path / "train.py").write_text(text)
    words = ["60" if word == "9" else word for word in test_partitions.OPTIONS]
    started = hosts.call(*words)
    assert started.returncode == 0, started.stderr
    run_id = started.stdout.split()[-1]
    where = ["-f", str(lab.hostfile), "-F", str(lab.ssh_config)]
    viewer = subprocess.Popen(
        [sys.executable, "-m", "ipexctl", "attach", *where, run_id, "--ui", "plain"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(test_partitions.REPO)},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    time.sleep(25)
    hit = 0
    while hit < KILLS and viewer.poll() is None:
        host, process = chance.choice(hosts.names), chance.choice(PROCESSES)
        if process == KEEPER and not all(send(hosts, "0", name, KEEPER) for name in hosts.names):
            time.sleep(1)
            continue  # more than half of them at once is not promised
        if chance.random() < 0.3:
            if send(hosts, "STOP", host, process):
                hit += 1
                print(f"{time.strftime('%T')} froze {process} on {host}", flush=True)
                time.sleep(chance.uniform(2, 25))
                send(hosts, "CONT", host, process)
        elif send(hosts, "KILL", host, process):
            hit += 1
            print(f"{time.strftime('%T')} killed {process} on {host}", flush=True)
        time.sleep(chance.uniform(4, 18))
    said, _ = viewer.communicate(timeout=1200)
    print(said[-6000:])
    told, rows, firsts = test_partitions.ended(hosts, run_id, STEPS)
    record = test_partitions.read_record(hosts, "node03", run_id)
    why = {line.attempt: line.why for line in record if isinstance(line, AttemptEnded)}
    for number, row in enumerate(reversed(rows), 1):
        print(row["run_id"], row["state"], "| ps:", row["cause"], "| record:", why.get(number))
    assert hit == KILLS and rows[0]["state"] == "done", rows
    print(seed, len(rows), "attempts", firsts)
