"""Hosts with one folder between them, as on a file server: what is of a host stays of that host."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from ipexctl.blobs.blob_relay import Carrier
from ipexctl.common.removal_answers import RunRemoved
from ipexctl.data.dataset_transfer import Transfer
from ipexctl.errors import InputError
from ipexctl.inventory.inventory import Host
from ipexctl.lab import Lab
from ipexctl.machines.agent import Agent
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.wire.transport import LocalTransport
from ipexctl.project.files.project_files import ProjectFile, Tree
from ipexctl.project.folder_transfer import TreeContents, send_folder
from ipexctl.remote import root_folder
from tests.run_lab.conftest import REPO, Runner
from tests.run_lab.test_ps_lab import second

PLACE = "/home/trainer/shared"


@dataclass
class Shared(Runner):
    """Its root is the same folder on every host, and its environments are each host's own."""

    lab: Lab
    folder: Path
    place: Path

    def __post_init__(self) -> None:
        super().__init__(self.lab, self.folder)

    def argv(self, *options: str) -> list[str]:
        found = super().argv(*options)
        at = found.index("run") + 1
        return [*found[:at], "--root", PLACE, *found[at:]]

    def data(self, *words: str) -> dict:
        of_lab = ["-f", str(self.lab.hostfile), "-F", str(self.lab.ssh_config), "--root", PLACE]
        done = subprocess.run(
            [sys.executable, "-m", "ipexctl", "data", *words, "--json", *of_lab],
            cwd=self.folder, env={**os.environ, "PYTHONPATH": str(REPO)},
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def temporary(self) -> list[str]:
        look = ["/bin/sh", "-c", "ls -d /tmp/ipexctl-* 2>/dev/null"]
        return [self.lab.run_in(h, look).stdout for h in self.lab.hosts]


@pytest.fixture
def shared(full_rung, installed_lab: Lab, tmp_path: Path) -> Iterator[Shared]:
    first, *others = installed_lab.hosts
    make = f"mkdir -m 700 {PLACE}; ln -s $(readlink -f ~/.ipexctl/current) {PLACE}/current"
    assert installed_lab.run_in(first, ["/bin/sh", "-c", make], user="trainer").returncode == 0
    place = installed_lab.hosts[first].files / "shared"
    for name in others:
        assert installed_lab.run_in(name, ["mkdir", PLACE], user="trainer").returncode == 0
        pid = installed_lab.hosts[name].pid
        bind = ["mount", "--bind", str(place), f"/proc/{pid}/root{PLACE}"]
        subprocess.run(["nsenter", "-t", str(pid), "-m", *bind], check=True)
    (tmp_path / "project").mkdir()
    yield Shared(installed_lab, tmp_path / "project", place)
    for name in others:
        undo = f"umount {PLACE} && rmdir {PLACE}"
        assert installed_lab.run_in(name, ["/bin/sh", "-c", undo]).returncode == 0
    installed_lab.run_in(first, ["rm", "-r", PLACE])


WRITES = (
    "import os\n"
    "rank = os.environ['RANK']\n"
    "open(f'{rank}.txt', 'w').write(rank)\n"
    "print(rank, os.getcwd())\n"
)


def test_the_files_of_a_run_are_sent_and_laid_out_once_and_fetched_once(shared: Shared) -> None:
    before = shared.temporary()  # of agents that other tests have killed
    (shared.folder / ".git").mkdir()
    (shared.folder / "jobs").mkdir()
    script = shared.script(WRITES, "jobs/writes.py")
    (shared.folder / "large.bin").write_bytes(os.urandom(1 << 20))
    (shared.folder / "small.bin").write_bytes(os.urandom(1 << 10))
    for number in (1, 2):  # the second one takes the copy that was made during the first
        run = shared.start("-n", "6", "-ppn", "2", "--fetch", "*.txt", str(script))
        result = run.finish()
        assert (result["exit_code"], result["ended_by"]) == (0, "ranks")
        there = f"{PLACE}/runs/{run.run_id}"
        assert [run.lines(r) for r in range(6)] == [[f"{r} {there}/work"] for r in range(6)]
        assert [(h["survivors"], h["logs"]) for h in result["hosts"]] == [(0, f"{there}/logs")] * 3
        outputs = shared.folder / ".ipexctl/runs" / run.run_id / "outputs"
        found = {str(p.relative_to(outputs)): p.read_text() for p in outputs.rglob("*.txt")}
        assert found == {f"{rank}.txt": str(rank) for rank in range(6)}
        notes = " ".join(e["text"] for e in run.events if e["event"] == "note")
        assert ("1.0 MB sent" in notes, "already on all hosts" in notes) == (
            number == 1,
            number == 2,
        )
        here = shared.place / "runs" / run.run_id
        logs = {p.name: p.read_text() for p in (here / "logs").glob("rank*")}
        assert logs == {f"rank{r:05d}.log": f"{r} {there}/work\n" for r in range(6)}
        kept = sorted(p.name for p in here.iterdir())
        programs = ["bootstrap", "hosts"]
        others = ["journals", "lock", "logs", "mark", "placed", "sockets", "tree", "work"]
        assert kept == sorted([*programs, *others])
        journals = {p.name: p.stat().st_size for p in (here / "journals").iterdir()}
        assert journals.keys() == {
            name + end for name in shared.lab.hosts for end in ("", ".sizes")
        }
        assert all(0 < size < 16_384 for size in journals.values())
        assert shared.left(run.run_id) == {} and shared.temporary() == before
    assert len(list((shared.place / "blobs/packs").iterdir())) == 1


def test_without_sync_and_with_data(shared: Shared) -> None:
    (shared.folder / "set").mkdir()
    (shared.folder / "set" / "large").write_bytes(os.urandom(1 << 20))
    (shared.folder / "set" / "small").write_text("1")
    pushed = shared.data("push", "set")
    assert pushed["sent_bytes"] == (1 << 20) + 1, pushed
    (shared.place / "t.py").write_text(
        "import os\nprint(os.environ['RANK'], sorted(os.listdir(os.environ['IPEXCTL_DATA_SET'])))\n"
    )
    run = shared.start("-n", "3", "--no-sync", "--data", "set", f"{PLACE}/t.py")
    assert run.finish()["exit_code"] == 0
    assert [run.lines(r) for r in range(3)] == [[f"{r} ['large', 'small']"] for r in range(3)]
    shared.data("rm", "-y", "set")
    assert not (shared.place / "data/set").exists()


def test_a_run_on_one_of_the_hosts_is_stopped_there_and_removed_once(
    shared: Shared, tmp_path: Path
) -> None:
    """All hosts have its journal, and one its processes."""
    script = str(shared.script("import time\nprint('up', flush=True)\ntime.sleep(300)\n"))
    host = next(iter(shared.lab.hosts))
    began = shared.plain("-d", "-l", host, "-n", "1", script)
    assert began.returncode == 0, began.stderr
    run_id = began.stdout.split()[-1]
    there = ("--root", PLACE)
    shared.lab.fault(host, "unplug")  # the others cannot tell whether it lives
    try:
        for verb in (("stop",), ("wait",), ("rm", "-y")):
            refused = second(shared, tmp_path / "two", verb[0], run_id, *verb[1:], *there)
            assert (refused.returncode, refused.slug) == (4, "run-host-unreachable")
            assert host in refused.errors[0].what
    finally:
        shared.lab.heal(host)
    started = time.monotonic()
    done = second(shared, tmp_path / "two", "stop", run_id, "-t", "2", "--json", *there)
    row = json.loads(done.stdout)
    assert (done.returncode, row["state"], row["exit_code"]) == (0, "stopped", 130)
    assert (time.monotonic() - started < 30, row["ranks_started"]) == (True, 1)
    assert shared.gone(run_id, seconds=5) == {}
    gone = second(shared, tmp_path / "two", "rm", run_id, "-y", "--json", *there)
    assert gone.returncode == 0, gone.stdout
    assert not (shared.place / "runs" / run_id).exists()


# --- two agents of this machine with one root, as two hosts have it ------------------------------


@pytest.fixture
def agents() -> Iterator[list[Agent]]:
    made = [start_host_agent(LocalTransport(), Host(name, local=True)) for name in ("one", "two")]
    yield made
    for agent in made:
        agent.close()


class Broken:
    """The first who wants the bytes gets none: its file has changed meanwhile."""

    def __init__(self) -> None:
        self.asked = 0

    def path(self, sha256: str) -> Path:
        raise NotImplementedError

    def content(self, file: ProjectFile) -> bytes:
        self.asked += 1
        if self.asked == 1:
            raise InputError("it changed")
        return b"x"


def test_two_that_remove_one_run_both_end_well(agents: list[Agent], tmp_path: Path) -> None:
    top = root_folder.prepare_root(str(tmp_path / "root"))
    for turn in range(20):
        folder = Path(root_folder.make_subfolder(top, "runs", f"run-{turn}"))
        (folder / "lock").touch(0o600)
        for number in range(200):
            (folder / str(number)).touch()

        def remove(agent: Agent, run: str = folder.name) -> bool:
            asked = {"root": top, "run_id": run}
            return agent.call("remove.prune_rules.remove_run", asked).done.read(RunRemoved).removed

        with ThreadPoolExecutor() as pool:
            assert any(list(pool.map(remove, agents)))
        assert not folder.exists()


def bring_project(agent: Agent, bundle: TreeContents, root: str) -> int:
    asked = {"root": root, "run_id": "run-1", "cwd": ""}
    return send_folder(agent, bundle, asked).sent


def bring_dataset(agent: Agent, bundle: TreeContents, root: str) -> int:
    transfer = Transfer(bundle, {"name": "set", "hub": ""}, agent, root)
    transfer.bring_alone(Carrier(bundle.read), lambda what, done, total: None)
    return transfer.moved.sent


@pytest.mark.parametrize("bring_to", [bring_project, bring_dataset])
def test_when_the_one_that_makes_it_fails_another_host_takes_over(
    agents, tmp_path, bring_to
) -> None:
    tree = Tree((), (ProjectFile("x", 1, hashlib.sha256(b"x").hexdigest()),))
    bundle = TreeContents(tree, Broken())

    def bring(agent: Agent) -> int | str:
        try:
            return bring_to(agent, bundle, str(tmp_path / "root"))
        except InputError as e:
            return e.what

    with ThreadPoolExecutor() as pool:
        assert set(pool.map(bring, agents)) == {"it changed", 1}
    found = {p.name: p.read_text() for p in (tmp_path / "root").rglob("x")}
    assert found == {"x": "x"}
