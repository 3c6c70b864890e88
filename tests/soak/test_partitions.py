"""A run with --restarts whose hosts are divided for a while: one story on all hosts, no step of two
attempts at a time, and no attempt from step 0 while a checkpoint exists.

Ranks without torch, one per host: they count, and write what a checkpoint needs. `make soak` only.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ipexctl.common.attempt_record import (
    AttemptBegins,
    AttemptEnded,
    AttemptRuns,
    RecordLine,
    RunEnded,
    WrittenLine,
)
from ipexctl.inventory.nodeset import expand_names
from ipexctl.lab import HostSpec, Lab, LabSpec
from tests.practice_hosts import LabRoot, start_lab

pytestmark = pytest.mark.soak
REPO = Path(__file__).parents[2]
STEPS = 500
TRAIN = f"""
import os, sys, time
rank, attempt = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
first, found = 0, os.environ.get("IPEXCTL_CHECKPOINT")
if found:
    first = int(open(found + "/step.pt").read())
print("attempt", attempt, "from step", first, flush=True)
log = open(os.path.expanduser("~/steps"), "a", 1)
for step in range(first, {STEPS}):
    time.sleep(0.2)
    log.write("%s %d %.2f\\n" % (attempt, step, time.time()))
    if rank == "0" and step % 20 == 19:
        folder = "out/checkpoint-%d" % (step + 1)
        os.makedirs(folder, exist_ok=True)
        open(folder + "/step.pt", "w").write(str(step + 1))
        print("saved", step + 1, flush=True)
"""
ENV = "$HOME/.ipexctl/envs/0123456789abcdef"
MAKE = (
    f"python3 -m venv --without-pip {ENV} && ln -s {ENV} $HOME/.ipexctl/current && "
    f'echo \'{{"wheels": [], "blobs": []}}\' > {ENV}/.ipexctl-ok'
)
OPTIONS = (
    "run", "-d", "-ppn", "1", "--restarts", "9", "--min-hosts", "2", "--host-timeout", "12s",
    "--checkpoints", "out/checkpoint-*", "train.py",
)  # fmt: skip
CASES = [
    # hosts of one part, seconds until the network is whole, both directions, times
    ("12", 82, True, 1), ("12", 82, True, 1), ("12", 82, True, 1), ("12", 82, True, 1),
    ("12", 82, True, 1), ("1", 40, True, 1), ("5", 40, True, 1), ("45", 20, True, 1),
    ("34", 5, True, 1), ("1", 100, True, 1), ("12", 180, True, 1), ("23", 30, False, 1),
    ("1", 25, False, 1), ("12", 4, True, 8), ("1", 4, True, 8),
]  # fmt: skip


@pytest.fixture
def lab(lab_root: LabRoot, tmp_path: Path) -> Iterator[Lab]:
    made = start_lab(LabSpec(name=f"part{os.getpid()}", hosts=(HostSpec(),) * 5), lab_root)
    try:
        for host in made.hosts:
            done = made.run_in(host, ["/bin/sh", "-c", MAKE], user="trainer")
            assert done.returncode == 0, done.stderr
        (tmp_path / "train.py").write_text(TRAIN)
        yield made
    finally:
        made.down()


class Hosts:
    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.names = [*lab.hosts]
        show = ["/bin/sh", "-c", "hostname -I"]
        said = [lab.run_in(name, show).stdout for name in self.names]
        self.addresses = [str(s.decode() if isinstance(s, bytes) else s).split() for s in said]

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        where = ["-f", str(self.lab.hostfile), "-F", str(self.lab.ssh_config)]
        return subprocess.run(
            [sys.executable, "-m", "ipexctl", words[0], *where, *words[1:]], cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(REPO)}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen[str]:
        where = ["-f", str(self.lab.hostfile), "-F", str(self.lab.ssh_config)]
        return subprocess.Popen(
            [sys.executable, "-m", "ipexctl", words[0], *where, *words[1:]], cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(REPO)}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def cut_controller(self, verb: str, part: str) -> None:
        """At first its connections to these hosts have to be open."""
        names = [self.names[int(digit) - 1] for digit in part]
        if verb == "add":
            own = {address for addresses in self.addresses for address in addresses}
            shown = self.lab.run_in(names[0], ["ip", "-4", "neigh"]).stdout
            text = str(shown.decode() if isinstance(shown, bytes) else shown)
            self.controller = {line.split()[0] for line in text.splitlines()} - own
        for name, address in itertools.product(names, self.controller):
            ip = ["ip", "route", verb, "blackhole", f"{address}/32"]
            assert self.lab.run_in(name, ip).returncode == 0

    def route(self, verb: str, one: int, other: int) -> None:
        for address in self.addresses[other]:
            if ":" not in address:
                ip = ["ip", "route", verb, "blackhole", f"{address}/32"]
                assert self.lab.run_in(self.names[one], ip).returncode == 0

    def cut(self, verb: str, part: str, both: bool) -> None:
        ours = {int(digit) - 1 for digit in part}
        for one, other in itertools.product(ours, {*range(5)} - ours):
            self.route(verb, one, other)
            if both:
                self.route(verb, other, one)

    def read(self, name: str, path: str) -> list[str]:
        done = self.lab.run_in(name, ["/bin/sh", "-c", f"cat {path}"], user="trainer")
        out = done.stdout
        return str(out.decode() if isinstance(out, bytes) else out).splitlines()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("part", "seconds", "both", "times"), CASES)
def test_a_run_goes_on_though_its_hosts_were_divided(
    lab: Lab, tmp_path: Path, part: str, seconds: int, both: bool, times: int
) -> None:
    hosts = Hosts(lab, tmp_path)
    started = hosts.call(*OPTIONS)
    assert started.returncode == 0, started.stderr
    run_id = started.stdout.split()[-1]
    time.sleep(25)  # the first checkpoints are complete
    for _ in range(times):
        hosts.cut("add", part, both)
        time.sleep(seconds)
        hosts.cut("del", part, both)
        time.sleep(4)
    told, rows, firsts = ended(hosts, run_id, STEPS)
    print(json.dumps(told["node03"]), [(row["run_id"], row["state"]) for row in rows], firsts)
    assert rows[0]["state"] == "done", rows
    assert len({json.dumps(one) for one in told.values()}) == 1, told


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("seconds", [110, 260])  # while the run goes on, or after its end
def test_who_waits_in_the_smaller_part_hears_how_the_run_ended(
    lab: Lab, tmp_path: Path, seconds: int
) -> None:
    hosts = Hosts(lab, tmp_path)
    started = hosts.call(*OPTIONS)
    assert started.returncode == 0, started.stderr
    run_id = started.stdout.split()[-1]
    commands = [hosts.start("wait", run_id), hosts.start("attach", run_id, "--ui", "plain")]
    time.sleep(25)
    hosts.cut("add", "13", both=True)
    hosts.cut_controller("add", "245")
    time.sleep(20)
    commands += [hosts.start("wait", run_id), hosts.start("attach", run_id, "--ui", "plain")]
    time.sleep(seconds - 20)
    hosts.cut_controller("del", "245")
    hosts.cut("del", "13", both=True)
    for command in commands:
        said, _ = command.communicate(timeout=180)
        print(said[-1000:])
        assert command.returncode == 0, said
    _, rows, _ = ended(hosts, run_id, STEPS)
    assert rows[0]["state"] == "done", rows


def ended(hosts: Hosts, run_id: str, last: int) -> tuple[Any, Any, dict[int, int]]:
    """The stories that hosts tell of the run, the rows of `ps`, and the first step of each attempt:
    once it has ended, on one story, with no step of two attempts at a time."""
    told, rows = one_story(hosts, run_id)
    return told, rows, first_steps(hosts, last)


def read_record(hosts: Hosts, name: str, run_id: str) -> list[RecordLine]:
    """The lines that the keeper of a host has written."""
    lines = hosts.read(name, f".ipexctl/runs/{run_id}/attempts.*")
    return [WrittenLine.read(json.loads(line)).line for line in lines]


def one_story(hosts: Hosts, run_id: str) -> tuple[Any, Any]:
    until = time.monotonic() + 600
    while True:
        rows = json.loads(hosts.call("ps", "-a", "--json").stdout)["runs"]
        if all(row["state"] in ("done", "failed", "stopped", "lost") for row in rows):
            break
        assert time.monotonic() < until, rows
        time.sleep(2)
    records = {name: read_record(hosts, name, run_id) for name in hosts.names}
    lost = {
        line.attempt: line.lost + line.away
        for record in records.values()
        for line in record
        if isinstance(line, AttemptEnded)
    }
    for row in rows:
        named = lost.get(int(row["run_id"].partition("-r")[2] or 1), [])
        cause = unfolded(row["cause"] or "")
        assert all(host in cause for host in named) or row["state"] == "done", (row, named)
    told = {
        name: [
            [type(line).__name__, line.why if isinstance(line, RunEnded) else line.attempt]
            for line in record
            if isinstance(line, (AttemptBegins, AttemptRuns, AttemptEnded, RunEnded))
        ]
        for name, record in records.items()
    }
    longest = max(told.values(), key=len)  # a host whose keeper was killed knows its beginning
    assert all(one == longest[: len(one)] for one in told.values()), told
    return told, rows


def unfolded(text: str) -> str:
    """`node[01-02]: lost` has both names."""
    return re.sub(r"[\w-]+\[[\d,-]+\]", lambda found: " ".join(expand_names(found[0])), text)


def first_steps(hosts: Hosts, last: int) -> dict[int, int]:
    steps = [
        (int(attempt), int(step), float(at))
        for name in hosts.names
        for attempt, step, at in map(str.split, hosts.read(name, "steps"))
    ]
    spans: dict[int, list[float]] = {}
    for attempt, _, at in steps:
        spans.setdefault(attempt, []).append(at)
    for before, after in itertools.pairwise(sorted(spans)):
        assert max(spans[before]) < min(spans[after])
    firsts = {n: min(step for attempt, step, _ in steps if attempt == n) for n in spans}
    assert all(first > 0 for n, first in firsts.items() if n), firsts
    assert max(step for _, step, _ in steps) == last - 1
    return firsts
