"""The hook in a rank, with a stand-in for torch: what it writes, and that it stops nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ipexctl.in_ranks
from ipexctl.common.exchange_report import RankProcess

IN_RANKS = Path(ipexctl.in_ranks.__file__).parent
TORCH = """
import types
__version__ = "{version}"
device = str
from torch import distributed
"""
C10D = """
import os
class ProcessGroupGloo:
    def __init__(self): self.count = 0
    def _get_sequence_number_for_group(self): return self.count
class Other(ProcessGroupGloo): pass
class Group:
    def __init__(self): self.backend = globals()[os.environ.get("KIND", "ProcessGroupGloo")]()
    def _get_backend(self, device): return self.backend
class World:
    pg_group_ranks, pg_names = {}, {}
_world, entries = World(), []
def rendezvous(url): yield url
def get_backend(group): return "gloo"
def is_initialized(): return bool(_world.pg_names)
def get_rank(): return int(os.environ["RANK"])
def get_world_size(): return int(os.environ["WORLD_SIZE"])
def init_process_group(url="env://"):
    next(rendezvous(url))
    return new_group(range(get_world_size()))
def new_group(ranks):
    group = Group()
    _world.pg_names[group] = str(len(_world.pg_names))
    _world.pg_group_ranks[group] = {rank: i for i, rank in enumerate(ranks)}
    return group
def ran(group, name, recorded=True, done=True):
    group.backend.count += 1
    if recorded:
        entries.append({"process_group": [_world.pg_names[group], ""], "retired": done,
                        "profiling_name": "gloo:" + name, "time_created_ns": 1 << 62})
def destroy_process_group():
    _world.pg_names.clear(), _world.pg_group_ranks.clear()
"""
RECORDER = """
import json
from torch.distributed import distributed_c10d
def _dump_fr_trace_json(): return json.dumps({"entries": distributed_c10d.entries})
"""
DDP = """
class DistributedDataParallel:
    def __init__(self, group, init_sync=True):
        self.process_group = group
        self._ddp_init_helper()
    def _ddp_init_helper(self): pass
"""
SCRIPT = """
import os, sys
import torch, torch.distributed.distributed_c10d as dist
from torch.nn.parallel.distributed import DistributedDataParallel as DDP
"""


def read_record(record: dict[str, Any]) -> RankProcess:
    """As the host reads it."""
    assert record["pid"] > 0
    return RankProcess.read({**record, "main": True, "age": 0.0})


@pytest.fixture
def said(tmp_path: Path):
    """What a rank 1 of 4 that ran a script has written, and its exit code."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text((IN_RANKS / "rank_site.py").read_text())
    for name in ("rank_groups.py", "thread_waits.py"):
        (site / name).write_text((IN_RANKS / name).read_text())

    def run(script: str, version: str = "2.13.0", recorder: str = RECORDER, **env: str):
        for path, text in {
            "__init__.py": TORCH.replace("{version}", version), "_C/__init__.py": "",
            "_C/_distributed_c10d.py": recorder, "nn/__init__.py": "",
            "nn/parallel/__init__.py": "",
            "nn/parallel/distributed.py": DDP, "distributed/distributed_c10d.py": C10D,
            "distributed/__init__.py": "from torch.distributed.distributed_c10d import *\n",
        }.items():  # fmt: skip
            (tmp_path / "torch" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "torch" / path).write_text(text)
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT + script],
            env={**os.environ, "PYTHONPATH": f"{site}:{tmp_path}", "RANK": "1", "WORLD_SIZE": "4",
                 "IPEXCTL_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", **env},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        files = sorted(site.glob("*.groups"))
        assert not list(site.glob("*.groups.*")), done.stderr
        return done, [read_record(json.loads(path.read_text())) for path in files]

    return run


def test_a_rank_in_no_group_says_so_at_its_end(said):
    done, (one,) = said("sys.exit(3)")
    assert (done.returncode, done.stderr) == (3, "")
    assert (one.rank, one.ended, one.joined, one.groups) == (1, True, False, ())
    assert (one.place, one.torch, one.others) == (None, "2.13.0", ())


ALL, SOME = [(), "gloo"], [(1, 3), "gloo"]
JOIN = "g = dist.init_process_group()\n"


def rows_of(process: RankProcess) -> list[list[Any]]:
    return [[group.ranks, group.backend, group.data, group.count] for group in process.groups]


@pytest.mark.parametrize(
    ("script", "groups"),
    [
        ("", [[*ALL, False, 0]]),
        ("dist.ran(g, 'all_reduce')", [[*ALL, True, 1]]),
        ("dist.ran(g, 'all_reduce')\ndist.destroy_process_group()", [[*ALL, True, 1]]),
        ("dist.ran(g, 'barrier')\n" * 2, [[*ALL, False, 2]]),
        ("dist.ran(g, 'send', recorded=False)", [[*ALL, None, 1]]),
        ("dist.ran(g, 'all_reduce', done=False)", [[*ALL, None, 0]]),  # it never ended
        (
            "for _ in range(3): dist.ran(g, 'all_reduce')\ndist.ran(g, 'all_reduce', done=False)",
            [[*ALL, True, 3]],
        ),
        (
            "dist.ran(g, 'all_reduce')\ntry: 1 / 0\nfinally: dist.destroy_process_group()",
            [[*ALL, None, 1]],
        ),
        ("dist.ran(g, 'all_reduce')\nraise ValueError", [[*ALL, None, 1]]),
        ("dist.ran(g, 'all_reduce')\n" * 2 + "raise ValueError", [[*ALL, True, 2]]),
        ("dist.ran(dist.new_group([1, 3]), 'all_gather')", [[*ALL, False, 0], [*SOME, True, 1]]),
        ("dist.new_group([2, 3])", [[*ALL, False, 0]]),
        ("DDP(g)", [[*ALL, True, 0]]),
        ("DDP(g, init_sync=False)", [[*ALL, False, 0]]),
    ],
)
def test_what_ran_in_each_group_is_told(said, script, groups):
    done, (one,) = said(JOIN + script)
    assert (done.returncode, rows_of(one)) == (int("Error" in done.stderr), groups)
    assert (one.joined, one.place, one.world, one.ended) == (True, 1, 4, True)
    assert one.master == "10.0.0.1:29500"


@pytest.mark.parametrize(
    ("version", "script", "data"),
    [
        ("2.4.1", "dist.ran(g, 'all_reduce')", None),
        ("2.4.1", "", False),  # its counter begins with 0
        ("2.0.0", "", None),  # its counter begins anywhere
        ("1.13.1", "DDP(g)", True),
    ],
)
def test_without_a_recorder_the_constructor_of_ddp_is_the_proof(said, version, script, data):
    _, (one,) = said(JOIN + script, version, recorder="")
    assert rows_of(one)[0][:3] == [*ALL, data]


def test_a_counter_of_another_backend_proves_nothing(said):
    _, (one,) = said(JOIN, KIND="Other")
    assert rows_of(one) == [[*ALL, None, 0]]


@pytest.mark.parametrize("url", ["tcp://127.0.0.1:5000", "tcp://127.0.0.1:5000?rank=0"])
def test_the_address_of_the_rendezvous_is_known_before_it_is_reached(said, url):
    _, (one,) = said(f"dist.rendezvous({url!r})\nos._exit(0)")
    assert (one.master, one.joined, one.ended) == ("127.0.0.1:5000", True, False)


def test_a_process_that_was_forked_has_a_record_of_its_own(said):
    child = "if os.fork() == 0:\n    dist.init_process_group()\n    os._exit(0)\nos.wait()\n"
    _, found = said(child)
    assert sorted((one.joined, one.ended) for one in found) == [(False, True), (True, False)]


def test_other_libraries_are_named(said):
    _, (one,) = said("sys.modules['mpi4py.MPI'] = sys\n")
    assert one.others == ("mpi4py.MPI",)


@pytest.mark.parametrize("breaks", ["del dist.get_rank, dist.rendezvous", "dist._world = None"])
def test_another_torch_stops_no_rank(said, breaks):
    done, _ = said(f"{breaks}\nprint('on')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")


def test_a_rank_says_what_it_imports_and_that_it_joins(said, tmp_path):
    """The host reads it until the rank prints something."""
    (tmp_path / "transformers.py").write_text(
        "import glob, os\n"
        "folder = os.environ['PYTHONPATH'].split(':')[0]\n"
        "def stage(): return open(glob.glob(folder + '/*.stage')[0]).read().strip()\n"
        "print(stage())\n"
    )
    script = (
        "import time, transformers\n"
        "next(dist.rendezvous('env://'))\n"
        "print(transformers.stage())\n"
        "dist.new_group(range(4))\n"
        "while transformers.stage(): time.sleep(0.1)\n"
        "if os.fork() == 0: sys.path.insert(0, '/'); sys.meta_path[0].find_spec('torchvision')\n"
        "else: os.wait(); print('then', transformers.stage() or 'nothing')\n"
    )
    done, _ = said(script)
    assert done.stdout.splitlines() == [
        "importing transformers", "joining the process group", "then nothing",
    ], done.stderr  # fmt: skip
