"""`shell --mpi`: plain mpirun, typed on one host, without keys between the hosts."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ipexctl.lab import Lab
from tests.cli import ipexctl
from tests.practice_hosts import Homes, Installed, home_with
from tests.run_lab.conftest import REPO

TRAIN = """
import os, socket, sys, torch
rank, size = os.environ["RANK"], os.environ["WORLD_SIZE"]
assert int(os.environ["LOCAL_RANK"]) < int(os.environ["LOCAL_WORLD_SIZE"])
torch.distributed.init_process_group("gloo")
total = torch.tensor([float(rank)])
torch.distributed.all_reduce(total)
own = os.environ["GLOO_SOCKET_IFNAME"], os.environ.get("TYPED", "none"), str(int(total.item()))
sys.stdout.write(" ".join(("rank", rank, "of", size, socket.gethostname(), *own)) + "\\n")
torch.distributed.destroy_process_group()
"""
NODE02 = "ens3"  # its interface; the others have eth0
ROOTS = {"intel": "~/.ipexctl", "mpich": "~/.mpich", "openmpi": "~/.openmpi"}
# as each MPI has them: two ranks on each of two hosts, with one variable
FOUR = {
    "intel": "mpirun -f hostfile -n 4 -ppn 2 -genv TYPED yes python3 train.py",
    "mpich": "mpirun -f hostfile -n 4 -ppn 2 -genv TYPED yes python3 train.py",
    "openmpi": "mpirun --hostfile hostfile -n 4 -N 2 -x TYPED=yes python3 train.py",
}


ONE_EACH = {"intel": "-ppn 1", "mpich": "-ppn 1", "openmpi": "-N 1"}


@dataclass(frozen=True)
class Typed:
    lab: Lab
    mpi: str
    folder: Path

    def argv(self, host: str, line: str, *more: str) -> list[str]:
        root = ROOTS[self.mpi]
        reach = ["-f", str(self.lab.hostfile), "-F", str(self.lab.ssh_config), "--root", root]
        ipexctl = [sys.executable, "-m", "ipexctl", "shell", "--mpi", host]
        return [*ipexctl, *reach, *more, "--", "sh", "-c", line]

    def run(self, line: str, host: str = "node01") -> subprocess.CompletedProcess:
        return subprocess.run(
            self.argv(host, line), cwd=self.folder, env={**os.environ, "PYTHONPATH": str(REPO)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip

    def processes(self, word: str) -> list[str]:
        """On all hosts."""
        found = []
        for host in self.lab.hosts:
            look = ["pgrep", "-a", "-f", word]
            found += self.lab.run_in(host, look).stdout.splitlines()
        return [line for line in found if "pgrep" not in line]


@pytest.fixture(
    scope="module", params=["intel", pytest.param("mpich", marks=pytest.mark.soak), "openmpi"]
)
def typed(
    request: pytest.FixtureRequest, installed: Installed, homes: Homes,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Typed]:  # fmt: skip
    name, lab = request.param, installed.lab
    folder = tmp_path_factory.mktemp(f"typed-{name}")
    (folder / "train.py").write_text(TRAIN)
    if name != "intel":
        home = home_with(name, installed, homes)
        for host in lab.hosts.values():
            home.lay_into(Path(host.files))
    yield Typed(lab, name, folder)
    if name != "intel":
        for host in lab.hosts.values():
            shutil.rmtree(Path(host.files) / f".{name}", ignore_errors=True)


def test_the_line_of_the_guides_trains_on_two_hosts_each_with_its_own_interface(typed):
    done = typed.run(FOUR[typed.mpi])
    seen = sorted(re.findall(r"rank (\d) of (\d) (\w+) (\w+) (\w+) (\d)", done.stdout))
    on = [("node01", "eth0")] * 2 + [("node02", NODE02)] * 2
    wanted = [(str(i), "4", *on[i], "yes", "6") for i in range(4)]
    assert seen == wanted, done.stdout + done.stderr
    assert done.returncode == 0


def test_typed_on_another_host_it_starts_the_same_ranks_and_gives_their_code(typed):
    script = "hostname; [ $(hostname) != node03 ] || { sleep 3; exit 5; }"
    done = typed.run(f"mpirun -n 3 {ONE_EACH[typed.mpi]} sh -c '{script}'", "node02")
    assert {"node01", "node02", "node03"} == set(re.findall(r"^node\d\d$", done.stdout, re.M))
    assert done.returncode == 5, done.stdout + done.stderr


def test_a_host_that_is_not_there_is_refused_by_name(typed):
    option = "--host" if typed.mpi == "openmpi" else "-hosts"
    done = typed.run(f"mpirun {option} node01,node09 -n 2 {ONE_EACH[typed.mpi]} hostname")
    assert "mpirun requested a host that is not in this run: node09" in done.stderr
    assert done.returncode != 0


def test_nothing_is_left_when_the_command_is_killed(typed):
    mark = "1001.25"
    process = subprocess.Popen(
        typed.argv("node01", f"mpirun -n 3 {ONE_EACH[typed.mpi]} sleep {mark}"), cwd=typed.folder,
        env={**os.environ, "PYTHONPATH": str(REPO)}, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 90
        while len([p for p in typed.processes(f"sleep {mark}") if "mpi" not in p]) < 3:
            assert time.monotonic() < deadline, typed.processes(mark)
            time.sleep(0.5)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    deadline = time.monotonic() + 30
    while left := typed.processes(f"sleep {mark}") + typed.processes("hydra|prted"):
        assert time.monotonic() < deadline, left
        time.sleep(0.5)


def test_hosts_with_different_paths_are_refused_with_the_way_that_works(installed, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("node01\nnode02 root=~/.elsewhere\n")
    lab = installed.lab
    move = ["/bin/sh", "-c", "ln -s .ipexctl ~/.elsewhere"]
    assert lab.run_in("node02", move, user="trainer").returncode == 0
    words = ("shell", "--mpi", "node01", "-f", str(elsewhere), "-F", str(lab.ssh_config))
    done = ipexctl(*words, "--", "true", cwd=tmp_path)
    lab.run_in("node02", ["rm", "/home/trainer/.elsewhere"], user="trainer")
    assert (done.returncode != 0, done.slug) == (True, "paths-differ")
    assert "try: ipexctl run mpirun ..." in done.stderr
