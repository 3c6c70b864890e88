"""Ranks and hosts killed between and within the files of a checkpoint, in four layouts at the same
time: whatever an attempt begins from is whole, of one step, and the same on all ranks.

Ranks without torch, one per host; the sharded layout has files as `torch.distributed.checkpoint`.
Each round kills a rank of each run while it writes, or the host of rank 0. `make soak` only.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ipexctl.lab import HostSpec, LabSpec
from tests.practice_hosts import LabRoot, start_lab
from tests.soak.test_partitions import MAKE, Hosts

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3000)]
# what each layout writes: (path, which rank writes it), {step} and {rank} are filled in
LAYOUTS = {
    "folder": ("out/ck-*", [("out/ck-{step:05d}/model", 0), ("out/ck-{step:05d}/optim", 0)]),
    "pair": ("out/*", [("out/model.bin", 0), ("out/optim.bin", 0)]),
    "single": ("out/*", [("out/model.bin", 0)]),
    "sharded": (
        "out/ck-*",
        [("out/ck-{step}/__{rank}_0.distcp", -1), ("out/ck-{step}/.metadata", 0)],
    ),
}
TRAIN = """
import glob, json, os, sys, time
name, files = sys.argv[1], json.loads(sys.argv[2])
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
home = os.path.expanduser("~/" + name)
os.makedirs(home, exist_ok=True)

def note(kind, *words):
    with open(home + "/" + kind, "a") as log:
        print(attempt, rank, *words, file=log)

def read(path):
    text = open(path).read()
    step = int(text.split()[0])
    words = {word for word in text.split()[:-1] if word[0] != "_"}
    if not text.endswith("end") or words != {str(step)}:
        note("torn", path)
        raise EOFError("%s is cut" % path)
    return step

def load():
    top = os.environ.get("IPEXCTL_CHECKPOINT", "")
    if not top and not any(os.path.exists(path) for path, _ in files):
        return 0
    if "{step" in files[0][0]:
        names = [top + "/" + os.path.basename(path) for path, _ in files]
    else:
        names = [path for path, _ in files]
    paths = [path.format(rank=r, step=0) for path in names for r in range(world)]
    steps = sorted({read(path) for path in dict.fromkeys(paths)})
    note("loads", *steps)
    return steps[-1]

def save(step):
    for path, writer in files:
        if writer not in (-1, rank):
            continue
        path = path.format(step=step, rank=rank)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if path.endswith(".metadata"):
            time.sleep(8)  # until the other ranks have written their shards
        text = ("%d " % step) * 50
        if path.endswith(".metadata"):
            text += " ".join("__%d_0.distcp" % r for r in range(world)) + " "
        with open(path, "w") as file:
            note("stage", step, "within", time.time())
            file.write(text[:70])
            file.flush()
            time.sleep(1.5)
            file.write(text[70:] + "end")
        note("stage", step, "between", time.time())
        time.sleep(5.5)

step = load()
while not os.path.exists(home + "/end"):
    step += 1
    time.sleep(0.2)
    if step % 30 == 0:
        save(step)
note("done", step)
"""
OPTIONS = (
    "run", "-d", "--force", "-ppn", "1", "-n", "3", "--restarts", "30", "--spares", "node04",
    "--host-timeout", "12s",
)  # fmt: skip
HOSTS = ("node01", "node02", "node03", "node04")
RANK_ROUNDS, HOST_ROUNDS = 4, 1  # of four kills each


@pytest.fixture
def hosts(lab_root: LabRoot, tmp_path: Path) -> Iterator[Hosts]:
    made = start_lab(LabSpec(name=f"ck{os.getpid()}", hosts=(HostSpec(),) * 4), lab_root)
    try:
        for host in made.hosts:
            assert made.run_in(host, ["/bin/sh", "-c", MAKE], user="trainer").returncode == 0
        (tmp_path / "train.py").write_text(TRAIN)
        yield Hosts(made, tmp_path)
    finally:
        made.down()


class Runs:
    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        self.kills: Counter[tuple[str, str]] = Counter()
        self.ids = {}
        for name, (pattern, files) in LAYOUTS.items():
            words = ("--checkpoints", pattern, "--name", name, "train.py", name, json.dumps(files))
            done = hosts.call(*OPTIONS, *words)
            assert done.returncode == 0, done.stderr
            self.ids[name] = done.stdout.split()[-1]

    def lines(self, name: str, kind: str) -> list[tuple[str, list[str]]]:
        """What all ranks have noted: (host, words)."""
        return [
            (host, line.split())
            for host in HOSTS
            for line in self.hosts.read(host, f"{name}/{kind} 2>/dev/null")
        ]

    def attempt(self, name: str) -> int:
        return max((int(words[0]) for _, words in self.lines(name, "stage")), default=-1)

    def wait_for_saves(self, name: str, count: int, seconds: float = 240) -> None:
        """Until the attempt that runs has written that many files since it began."""
        deadline = time.monotonic() + seconds
        last = self.attempt(name)
        while time.monotonic() < deadline:
            rows = [words for _, words in self.lines(name, "stage")]
            now = self.attempt(name)
            if now > last:
                last = now
            if sum(words[0] == str(now) and words[3] == "between" for words in rows) >= count:
                return
            time.sleep(1)
        raise AssertionError(f"{name}: attempt {last} writes nothing")

    def kill_rank(self, name: str, stage: str) -> None:
        """The rank that writes, in the middle of a file or between two."""
        before = len(self.lines(name, "stage"))
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            new = self.lines(name, "stage")[before:] if stage else []
            rows = [(h, w) for h, w in self.lines(name, "stage") if float(w[4]) > time.time() - 1.2]
            hit = [h for h, words in rows if words[3] == stage]
            if hit or (new and not stage):
                host = hit[0]
                kill = f"pkill -KILL -f '[t]rain.py {name} '"
                assert self.hosts.lab.run_in(host, ["/bin/sh", "-c", kill]).returncode == 0
                self.kills[name, f"rank, {stage}"] += 1
                return
            time.sleep(0.2)
        raise AssertionError(f"{name}: no file was {stage}")

    def faults(self, name: str) -> list[str]:
        found = [f"torn: {words}" for _, words in self.lines(name, "torn")]
        by_attempt: dict[str, set[str]] = {}
        for _, words in self.lines(name, "loads"):
            if len(words) != 3:
                found.append(f"mixed: {words}")
            by_attempt.setdefault(words[0], set()).update(words[2:])
        found += [f"ranks differ: {a} {s}" for a, s in by_attempt.items() if len(s) > 1]
        return found

    def end(self) -> dict[str, dict[str, Any]]:
        for name in self.ids:
            for host in HOSTS:
                touch = ["/bin/sh", "-c", f"mkdir -p {name} && touch {name}/end"]
                self.hosts.lab.run_in(host, touch, user="trainer")
        rows = {}
        for name, run_id in self.ids.items():
            code = self.hosts.call("wait", run_id).returncode
            record = self.hosts.call("attach", "--ui", "plain", run_id)
            starts = [line for line in record.stderr.splitlines() if "; attempt " in line]
            rows[name] = {
                "kills": sum(n for (run, _), n in self.kills.items() if run == name),
                "attempts": 1 + max(self.attempt(name), len(starts)),
                "loads": len({w[0] for _, w in self.lines(name, "loads")}),
                "code": code,
                "faults": self.faults(name),
                "starts": starts,
            }
        return rows


def test_no_kill_leaves_a_checkpoint_that_is_mixed_or_half(hosts: Hosts) -> None:
    chance = random.Random(int(os.environ.get("IPEXCTL_SOAK_SEED", "1")))
    runs = Runs(hosts)
    for turn in range(RANK_ROUNDS):
        for name in LAYOUTS:
            runs.wait_for_saves(name, 3)
            runs.kill_rank(name, ("within", "between")[turn % 2])
        print(f"round {turn + 1}: {dict(runs.kills)}", flush=True)
    for _ in range(HOST_ROUNDS):
        for name in LAYOUTS:
            runs.wait_for_saves(name, 3)
        time.sleep(chance.random() * 7)
        hosts.lab.fault("node01", "kill")
        runs.kills.update((name, "host") for name in LAYOUTS)
        time.sleep(30)
        hosts.lab.heal("node01")
        for name in LAYOUTS:
            runs.wait_for_saves(name, 2)
    rows = runs.end()
    print(
        f"{'layout':8} {'kills':>5} {'attempts':>8} {'from a checkpoint':>17} {'exit':>4}  faults"
    )
    for name, row in rows.items():
        print(
            f"{name:8} {row['kills']:5} {row['attempts']:8} {row['loads']:17} {row['code']:4}  "
            f"{row['faults'] or 'none'}"
        )
        print("\n".join("   " + line[:230] for line in row["starts"]), flush=True)
    assert all(row["code"] == 0 and not row["faults"] for row in rows.values()), rows
    assert sum(row["kills"] for row in rows.values()) >= 20
