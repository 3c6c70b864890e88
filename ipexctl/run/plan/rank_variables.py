"""The variables by which a rank learns its place, and who reads them, in one table.

docs/run-environment.md shows it; `tools/table_pages.py` writes it there.
"""

from __future__ import annotations

from collections.abc import Callable

from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.launch import HostPlan, LaunchPlan, RankPlace

Value = Callable[[LaunchPlan, HostPlan, RankPlace], object]


@dataclass(frozen=True)
class Contract:
    """One variable of every rank. `fixed`: it differs in each rank, so --env cannot set it."""

    name: str
    means: str
    readers: str
    value: Value
    fixed: bool = False


_TORCH = "torch.distributed, Accelerate, Lightning, DeepSpeed; all versions"
_TORCHRUN = "scripts written for torchrun"
_FABRIC = "Lightning's Fabric, which then needs no `devices` or `num_nodes`"

TABLE = (
    Contract("RANK", "rank", _TORCH, lambda plan, host, place: place.rank, fixed=True),
    Contract("WORLD_SIZE", "number of ranks", _TORCH, lambda p, h, r: p.world_size, fixed=True),
    Contract("LOCAL_RANK", "rank on its host", _TORCH, lambda p, h, r: r.local_rank, fixed=True),
    Contract(
        "LOCAL_WORLD_SIZE",
        "ranks on its host",
        "torchrun scripts, Accelerate",
        lambda p, h, r: len(h.ranks),
        fixed=True,
    ),
    Contract("MASTER_ADDR", "address of rank 0", _TORCH, lambda p, h, r: p.master_addr),
    Contract("MASTER_PORT", "a free port there", _TORCH, lambda p, h, r: p.master_port),
    Contract(
        "GROUP_RANK",
        "number of the host, from 0",
        "Lightning, Fabric (1.9, 2.0, 2.6); without it, both hosts of a two-host run start with "
        "rank 0",
        lambda p, h, r: p.hosts.index(h),
    ),
    Contract("NODE_RANK", "GROUP_RANK", "Lightning, Fabric", lambda p, h, r: p.hosts.index(h)),
    Contract("GROUP_WORLD_SIZE", "number of hosts", _TORCHRUN, lambda p, h, r: len(p.hosts)),
    Contract("ROLE_NAME", "`default`", _TORCHRUN, lambda p, h, r: "default"),
    Contract("ROLE_RANK", "rank", _TORCHRUN, lambda p, h, r: r.rank, fixed=True),
    Contract("ROLE_WORLD_SIZE", "number of ranks", _TORCHRUN, lambda p, h, r: p.world_size),
    Contract(
        "LOCAL_SIZE",
        "ranks on its host",
        "DeepSpeed: its device count on CPUs, its all-reduce in shared memory",
        lambda p, h, r: len(h.ranks),
    ),
    Contract(
        "TORCHELASTIC_RUN_ID",
        "the run's id",
        "torch 1.9 and newer (is_torchelastic_launched), Lightning, which then uses RANK unchanged",
        lambda p, h, r: p.run_id,
    ),
    Contract("TORCHELASTIC_RESTART_COUNT", "restarts so far", _TORCHRUN, lambda p, h, r: 0),
    Contract("TORCHELASTIC_MAX_RESTARTS", "`--restarts`", _TORCHRUN, lambda p, h, r: p.restarts),
    Contract("LT_DEVICES", "ranks on its host", _FABRIC, lambda p, h, r: len(h.ranks)),
    Contract("LT_NUM_NODES", "number of hosts", _FABRIC, lambda p, h, r: len(p.hosts)),
)
ERROR_FILE = Contract(
    "TORCHELASTIC_ERROR_FILE",
    "a file in the run's logs on its host",
    "torch's @record, which writes the exception there as JSON",
    lambda p, h, r: "",
)
HOST_WIDE = (
    (
        "ACCELERATE_USE_CPU",
        "`true`, where accelerate is installed, no host has an accelerator, and neither "
        "DeepSpeed nor FSDP is requested from it",
        "Accelerate 0.15 and newer, transformers' Trainer; without it `Accelerator()` and a "
        "Trainer without `--use_cpu` train alone on each rank. Before 0.15 it is `USE_CPU`",
    ),
    ("DS_ACCELERATOR", "`cpu`, where deepspeed is installed", "DeepSpeed; seen in 0.19"),
)
# variables that differ in a further attempt, which may have other hosts (--restarts)
VARIES = {
    "RANK": "rank",
    "ROLE_RANK": "rank",
    "WORLD_SIZE": "world",
    "ROLE_WORLD_SIZE": "world",
    "GROUP_RANK": "index",
    "NODE_RANK": "index",
    "GROUP_WORLD_SIZE": "hosts",
    "LT_NUM_NODES": "hosts",
    "MASTER_ADDR": "address",
    "MASTER_PORT": "port",
    "TORCHELASTIC_RUN_ID": "run_id",
    "TORCHELASTIC_RESTART_COUNT": "restarts",
}
FIXED = frozenset(entry.name for entry in TABLE if entry.fixed)


def compose_rank_variables(plan: LaunchPlan, host: HostPlan, place: RankPlace) -> dict[str, str]:
    """Return all variables of a rank: its place, those of its host's plan, and --env over both."""
    contract = {entry.name: str(entry.value(plan, host, place)) for entry in TABLE}
    fixed = {name: contract[name] for name in (*sorted(FIXED), "MASTER_ADDR", "MASTER_PORT")}
    return {**contract, **dict(host.rank_env), **fixed}
