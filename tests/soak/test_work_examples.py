"""The work of docs/work.md on 1, 2 and 4 practice hosts, and embeddings on lost and slow hosts.

Prints the table of docs/work.md. The hosts share this machine's cores, so each is limited to a part
of one, where control groups (v1) can be made.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from examples.shard_queue import in_order
from ipexctl.common.waiting import wait_until
from ipexctl.lab import Lab, LabSpec
from tests.conftest import MakeLab
from tests.soak.test_examples import Project

pytestmark = pytest.mark.lab
REPO = Path(__file__).parents[2]
CPUS = float(os.environ.get("WORK_CPUS", "0.3"))  # of each host
RATE = re.compile(r"world size (\d+): ([\d.]+) (\w+/s)")
WORK = {  # options: nothing that an earlier run has left
    "embed_shards": ("--keep", "kept"),
    "distilbert_bf16": (),
    "lora_sft": (),
    "lennard_jones": (),
    "replicated_inference": (),
}
EMBED = ("examples/embed_shards.py", "--shard", "16", "--batch", "8")


@pytest.fixture
def hosts(make_lab: MakeLab, tmp_path: Path) -> Iterator[tuple[Lab, Project]]:
    lab = make_lab(LabSpec.plain(4, name="work"))
    where = ("-f", str(lab.hostfile), "-F", str(lab.ssh_config))
    (tmp_path / "home").mkdir()
    shutil.copytree(REPO / "examples", tmp_path / "project" / "examples")
    project = Project(tmp_path / "project", where, tmp_path / "home")
    installed = project.call("install", "-r", "examples/requirements.txt", "-y", "--mpi", "mpich")
    assert installed.returncode == 0, installed.stdout + installed.stderr
    limited = [limit(lab, name) for name in lab.hosts]
    yield lab, project
    for group in filter(None, limited):
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):  # it has ended
                (group.parent / "cgroup.procs").write_text(pid)
        group.rmdir()


def limit(lab: Lab, host: str) -> Path | None:
    """The host's control group: it may use CPUS of a core. None where none can be made."""
    group = Path(f"/sys/fs/cgroup/cpu/{lab.name}-{os.getpid()}-{host}")
    try:
        group.mkdir()
        (group / "cpu.cfs_quota_us").write_text(str(round(CPUS * 100_000)))
    except OSError:
        return None
    first = lab.status()[host][0]
    inside = subprocess.run(["pgrep", "-P", str(first)], capture_output=True, text=True).stdout
    for pid in [first, *map(int, inside.split())]:
        (group / "cgroup.procs").write_text(str(pid))
    return group


@pytest.mark.timeout(3600)
def test_the_table(hosts: tuple[Lab, Project], capsys: pytest.CaptureFixture[str]) -> None:
    _, project = hosts
    wrong = []
    with capsys.disabled():
        print("\n| example | 1 host | 2 hosts | 4 hosts |\n|---|---|---|---|")
        for name, options in WORK.items():
            cells = []
            for count in (1, 2, 4):
                words = ("-n", str(count), "-ppn", "1", f"examples/{name}.py", *options)
                done = project.call("run", *words)
                found = RATE.search(done.stdout)
                cells.append(f"{found[2]} {found[3]}" if found else "-")
                if done.returncode or not found or int(found[1]) != count:
                    wrong.append(done.stdout[-3000:] + done.stderr[-3000:])
            print(f"| `{name}.py` | {' | '.join(cells)} |", flush=True)
    assert not wrong


@pytest.mark.timeout(1800)
def test_embeddings_lose_nothing_and_double_nothing_with_a_host(
    hosts: tuple[Lab, Project],
) -> None:
    lab, project = hosts
    restarts = ("--restarts", "3", "--min-hosts", "1", "--host-timeout", "10s")
    kept = lab.hosts["node03"].files / ".cache/embed_shards"
    with ThreadPoolExecutor() as pool:
        run = pool.submit(project.call, "run", "-ppn", "1", "--name", "lost", *restarts, *EMBED)
        wait_until(lambda: len(list(kept.glob("*/*.npy"))) >= 3, 300, 0.1)
        lab.fault("node03", "kill")
    assert run.result().returncode == 0, run.result().stderr
    assert "computed" in run.result().stdout and "node03: lost" in run.result().stderr
    assert merged(project, "lost", 4) == 128  # every shard once
    lab.heal("node03")

    again = project.call("run", "-ppn", "1", "--name", "again", *EMBED)  # node03 brings its own
    computed = re.findall(r"(\d+) shards kept, (\d+) computed", again.stdout)
    assert again.returncode == 0 and len(computed) == 4
    assert sum(int(kept) + int(done) for kept, done in computed) == 128
    assert sum(int(done) for _, done in computed) < 8  # taken before a late rank said it has them
    assert merged(project, "again", 0) == 128


@pytest.mark.timeout(1800)
def test_a_slow_host_does_not_hold_the_others(hosts: tuple[Lab, Project]) -> None:
    _, project = hosts
    slow = ("--slow-rank", "2", "--keep", "kept")
    done = project.call("run", "--json", "-ppn", "1", *EMBED, *slow)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    text = "\n".join(e["text"] for e in events if e["event"] == "line")
    shards = {int(r): int(n) for r, n in re.findall(r"rank (\d): 0 .* (\d+) computed", text)}
    assert done.returncode == 0 and sum(shards.values()) == 128
    assert shards[2] < min(shards[rank] for rank in (0, 1, 3)) / 3


def merged(project: Project, name: str, code: int) -> int:
    """Shards that `fetch` brings and --merge finds: one of each."""
    fetched = project.call("fetch", name, "out", "--merge", "-o", name)
    assert fetched.returncode == code, fetched.stderr
    return len(in_order(project.folder / name / "out"))
