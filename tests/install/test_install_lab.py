"""Real torch and Intel MPI on hosts that are reached over SSH, and hosts that cannot take it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ipexctl.base.host_outcome import HostState
from ipexctl.lab import HostSpec, LabSpec
from tests.conftest import MakeLab
from tests.install.conftest import Shop, finish, make_wheel
from tests.practice_hosts import Homes, Installed

pytestmark = [pytest.mark.lab, pytest.mark.any_rung]

ALL_REDUCE = """
import os, torch, torch.distributed as dist
rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
dist.init_process_group("gloo", init_method="file:///tmp/rendezvous-of-test", rank=rank,
                        world_size=size)
t = torch.full((4,), float(rank + 1), dtype=torch.bfloat16)
dist.all_reduce(t)
dist.destroy_process_group()
print("sum", t[0].item(), flush=True)
os._exit(0)
"""


def test_every_host_has_the_same_environment_proved_by_ranks_that_agree(
    installed: Installed,
) -> None:
    recaps = installed.report.recaps
    assert [(r.host, r.state, r.detail) for r in recaps] == [
        (f"node0{i}", HostState.CHANGED, "torch 2.13.0+cpu, 2 ranks agree") for i in (1, 2, 3)
    ]


def test_mpirun_of_the_environment_starts_ranks_that_add_up_in_bf16(
    namespaces, installed: Installed
) -> None:
    env = "/home/trainer/.ipexctl/current"
    command = ["env", f"PATH={env}/bin:/usr/bin:/bin", "I_MPI_HYDRA_BOOTSTRAP=fork"]
    command += ["I_MPI_HYDRA_IFACE=lo", "GLOO_SOCKET_IFNAME=lo", "OMP_NUM_THREADS=1"]
    command += ["mpirun", "-n", "2", f"{env}/bin/python", "-c", ALL_REDUCE]
    done = installed.lab.run_in("node02", command, user="trainer", timeout=120)
    assert done.stdout.splitlines() == ["sum 3.0", "sum 3.0"], done.stderr


def test_nothing_is_left_on_the_hosts_but_the_root(installed: Installed, homes: Homes) -> None:
    with homes.of("intel") as home:
        left = home.left
    assert [path for path in left if "/envs/" not in path] == [
        ".ipexctl", ".ipexctl/.ipexctl-root", ".ipexctl/blobs", ".ipexctl/current",
        ".ipexctl/envs", ".ipexctl/install.lock", ".ipexctl/projects", ".ipexctl/tools",
    ]  # fmt: skip
    assert len([path for path in left if "/envs/" in path]) == 2


def over_ssh(shop: Shop, lab, *options: str):
    """`install` of the stand-ins on the lab's hosts; the wheel `uv` there is the real one."""
    files = ("--hostfile", str(lab.hostfile), "--ssh-config", str(lab.ssh_config))
    return finish(shop.start("--root", "~/.ipexctl", *files, *options))


def with_real_uv(shop: Shop) -> None:
    """A stand-in wheel around the real program: the hosts cannot reach this machine's own."""
    from ipexctl.packages.uv import find_uv

    program = Path(find_uv(os.environ)).read_bytes()
    make_wheel(shop.wheels, "uv", "0.9.9", {"uv-0.9.9.data/scripts/uv": program})


def test_a_host_whose_disk_is_too_small_fails_alone_and_says_so(
    shop: Shop, make_lab: MakeLab
) -> None:
    with_real_uv(shop)
    make_wheel(shop.wheels, "numpy", "2.0", {"zeros": bytes(200 << 20)})
    lab = make_lab(LabSpec(name="small", hosts=(HostSpec(disk=250 << 20), HostSpec())))
    outcome = over_ssh(shop, lab)
    assert (outcome.code, outcome.states) == (1, ["failed", "changed"]), outcome.err
    assert outcome.slugs == ["no-space", None]
    seen = lab.run_in("node01", ["sh", "-c", "ls ~trainer/.ipexctl ~trainer/.ipexctl/envs"])
    assert "current" not in seen.stdout


def test_a_cluster_with_a_host_too_old_for_every_row_ends_with_3(
    full_rung, shop: Shop, make_lab: MakeLab
) -> None:
    lab = make_lab(LabSpec.plain(2, name="old"))
    assert lab.run_in("node02", ["sh", "-c", "rm /usr/bin/python3*"]).returncode == 0
    outcome = over_ssh(shop, lab)
    assert (outcome.code, outcome.document["errors"][0]["slug"]) == (3, "no-row-fits")
    assert "node02: Python none" in outcome.err
