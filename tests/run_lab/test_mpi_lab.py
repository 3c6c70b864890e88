"""MPICH, Open MPI and no MPI: real programs on the hosts of a lab."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ipexctl.common.waiting import wait_until
from ipexctl.lab import Lab
from tests.practice_hosts import Homes, Installed, home_with
from tests.run_lab.conftest import Runner
from tests.run_lab.test_run_faults import SLEEP, up

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_ddp.py"
FAILS = "import os, sys\nif os.environ['RANK'] == '2': sys.exit(3)\n" + SLEEP
HOME = "/home/trainer"


@dataclass(frozen=True)
class Fleet:
    """Hosts with one MPI; on node03 it is in another folder than on the others."""

    lab: Lab
    name: str
    hostfile: Path

    def home(self, host: str) -> Path:
        return Path(self.lab.hosts[host].files)

    def runner(self, folder: Path) -> Runner:
        return FleetRunner(self, folder)


class FleetRunner(Runner):
    def __init__(self, fleet: Fleet, folder: Path) -> None:
        super().__init__(fleet.lab, folder)
        self.fleet = fleet
        self.hostfile = fleet.hostfile
        self.root = ("--root", f"~/.{fleet.name}")


def hostfile(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text(f"node01\nnode02\nnode03 root={HOME}/.moved-{name}\n")
    return path


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def fleet(
    request: pytest.FixtureRequest, installed: Installed, homes: Homes,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Fleet]:  # fmt: skip
    """Installed on node01, and copied from there: an environment may lie anywhere."""
    name, lab = request.param, installed.lab
    home = home_with(name, installed, homes)
    fleet = Fleet(lab, name, hostfile(tmp_path_factory.mktemp(name), name))
    for host in lab.hosts:
        home.lay_into(fleet.home(host))
    node03 = fleet.home("node03")
    (node03 / f".{name}").rename(node03 / f".moved-{name}")
    yield fleet
    for host in lab.hosts:
        for left in (f".{name}", f".moved-{name}"):
            shutil.rmtree(fleet.home(host) / left, ignore_errors=True)


# a table of faults for each MPI: Open MPI's in `make test`, MPICH's in `make soak`
of_each_mpi = pytest.mark.parametrize(
    "fleet", ["openmpi", pytest.param("mpich", marks=pytest.mark.soak)], indirect=True
)


@pytest.fixture(scope="module")
def without(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Hosts whose environment has no MPI, and no torch either: scripts here import none."""
    fleet = Fleet(installed.lab, "none", hostfile(tmp_path_factory.mktemp("none"), "none"))
    for host, name in (("node01", "none"), ("node02", "none"), ("node03", "moved-none")):
        key = f"{HOME}/.{name}/envs/0123456789abcdef"
        make = (
            f"python3 -m venv --without-pip {key} && ln -s {key} {HOME}/.{name}/current && "
            f'echo \'{{"wheels": [], "blobs": []}}\' > {key}/.ipexctl-ok'
        )
        done = installed.lab.run_in(host, ["/bin/sh", "-c", make], user="trainer")
        assert done.returncode == 0, done.stderr
    return fleet


def losses(lines: list[str]) -> list[str]:
    return [m[1] for m in (re.search(r"epoch \d+ loss ([0-9.]+)", t) for t in lines) if m]


def test_bf16_training_agrees_on_all_ranks_from_differing_prefixes(fleet, tmp_path):
    run, _ = fleet.runner(tmp_path).train("-n", "3", str(EXAMPLE), "--bf16", "--epochs", "2")
    seen = [losses(run.lines(rank)) for rank in range(3)]
    assert seen == [seen[0]] * 3
    assert len(seen[0]) == 2


def test_a_rank_that_fails_gives_its_code_under_every_mpi(fleet, tmp_path):
    runner = fleet.runner(tmp_path)
    run = runner.start("-n", "3", str(runner.script(FAILS)))
    result = run.finish()
    assert (result["exit_code"], result["ended_by"]) == (3, "rank-failed")
    assert runner.left(run.run_id) == {}


@of_each_mpi
def test_kill_9_of_mpirun_or_of_ipexctl_leaves_nothing_and_no_files_in_tmp(fleet, tmp_path):
    runner = fleet.runner(tmp_path)
    look = ["/bin/sh", "-c", "ls -d /tmp/*prte* /tmp/ompi* /tmp/ipexctl-* 2>/dev/null"]
    for kill in ("pkill -9 -o -f '[m]pirun|[p]rterun'", ""):
        run = runner.start("-n", "3", str(runner.script(SLEEP)))
        up(run, 3)
        if kill:
            assert runner.lab.run_in("node01", ["/bin/sh", "-c", kill]).returncode == 0
            assert run.finish()["ended_by"] == "mpirun"
        else:
            run.process.kill()
        assert runner.gone(run.run_id, seconds=10) == {}

        def files() -> list[object]:  # the guardian removes them; its environment is not marked
            return [runner.lab.run_in(host, look).stdout for host in runner.lab.hosts]

        assert wait_until(lambda: not any(files()), 10, 0.1), files()


LISTENS = """
import ctypes, os, sys, torch.distributed

def seen(when):
    for name in ("tcp", "tcp6"):
        for words in map(str.split, open(f"/proc/self/net/{name}")):
            address, _, port = words[1].rpartition(":")
            if words[3] == "0A" and address[-8:] not in ("0100007F", "01000000"):
                print(when, int(port, 16), flush=True)

mpi = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
if hasattr(mpi, "ompi_mpi_comm_world"):
    world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world")))
    char = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_char")))
else:
    world, char = 0x44000000, 0x4C000101
text = ctypes.create_string_buffer(b"told" if os.environ["RANK"] == "0" else b"", 100000)
assert mpi.MPI_Bcast(text, 100000, char, 0, world) == 0
assert text.value == b"told"
seen("mpi")
assert mpi.MPI_Barrier(world) == 0
torch.distributed.init_process_group("gloo")
torch.distributed.barrier()
seen("gloo")
print("master", os.environ["MASTER_PORT"], flush=True)
torch.distributed.barrier()
mpi.MPI_Finalize()
"""


def listen_within(runner: Runner, library: str) -> None:
    run = runner.start("-n", "3", "--ports", "31000-31015", str(runner.script(LISTENS)), library)
    result = run.finish()
    assert result["ended_by"] == "ranks", (result["cause"], result["tail"])
    for rank in range(3):
        told = [line.split() for line in run.lines(rank)]
        (master,) = {int(port) for word, port in told if word == "master"}
        of_mpi = {int(port) for word, port in told if word == "mpi"} - {22}
        assert 31010 <= master <= 31015
        assert of_mpi
        assert of_mpi <= set(range(31000, 31016)) - {master}
        if rank == 0:
            assert ["gloo", str(master)] in told


@of_each_mpi
def test_ports_of_each_mpi_lie_in_the_range_and_torch_has_its_own(fleet, tmp_path):
    library = {"mpich": "libmpi.so.12", "openmpi": "libmpi.so.40"}[fleet.name]
    listen_within(fleet.runner(tmp_path), library)


def test_ports_of_intel_mpi_lie_in_the_range_and_torch_has_its_own(runner):
    listen_within(runner, "libmpi.so.12")


MEETS = """
import os, socket, time
at = os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])
if os.environ['RANK'] == '0':
    with socket.create_server(at) as server:
        for _ in range(2): server.accept()[0].close()
else:
    for _ in range(100):
        try: socket.create_connection(at).recv(1); break
        except ConnectionRefusedError: time.sleep(0.1)
"""


@of_each_mpi
def test_a_small_range_of_ports_serves_run_after_run(fleet, tmp_path):
    """Ports of a run that has just ended still wait for late packets."""
    runner = fleet.runner(tmp_path)
    words = ("-n", "3", "--ports", "31100-31115", str(runner.script(MEETS)))
    runs = [runner.plain(*words) for _ in range(3)]
    assert [run.returncode for run in runs] == [0] * 3, runs[-1].stderr


def test_without_mpi_our_agents_start_the_ranks(without, tmp_path):
    runner = without.runner(tmp_path)
    run = runner.start("-n", "6", str(runner.script("import os\nprint(os.environ['RANK'])\n")))
    assert run.finish()["ended_by"] == "ranks"
    assert [run.lines(rank) for rank in range(6)] == [[str(rank)] for rank in range(6)]


@pytest.mark.parametrize(
    ("how", "code", "ended_by"),
    [("exit 3", 3, "rank-failed"), ("kill", 122, "mpirun"), ("Ctrl-C", 130, "interrupted")],
)
def test_without_mpi_a_run_ends_like_any_other(without, tmp_path, how, code, ended_by):
    runner = without.runner(tmp_path)
    run = runner.start("-n", "3", str(runner.script(FAILS if how == "exit 3" else SLEEP)))
    if how != "exit 3":
        up(run, 3)
    if how == "kill":
        kill = ["/bin/sh", "-c", "pkill -9 -o -f '[r]ank.pyc 1:0'"]
        assert runner.lab.run_in("node02", kill).returncode == 0
    if how == "Ctrl-C":
        run.process.send_signal(signal.SIGINT)
    result = run.finish()
    assert (result["exit_code"], result["ended_by"]) == (code, ended_by)
    assert [h["survivors"] for h in result["hosts"]] == [0, 0, 0]
    assert runner.left(run.run_id) == {}
