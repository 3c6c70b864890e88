"""The part of a run's plan that a viewer needs: kept in its first host's journal, for `attach`."""

from __future__ import annotations

from typing import Any

from ipexctl.base.host_answer import Answer, Line
from ipexctl.base.sizes import fold_numbers
from ipexctl.base.values import cpu_list as cpus_of
from ipexctl.errors import HostFailed
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.launch import HostPlan, LaunchPlan, RankPlace

# variables of the ranks that hold no secret
_SHOWN = (
    "IPEXCTL_BACKEND", "GLOO_SOCKET_IFNAME", "IPEXCTL_COMPRESS", "IPEXCTL_SHARE",
    "OMP_NUM_THREADS",
)  # fmt: skip


def shown_plan_document(plan: LaunchPlan) -> dict[str, object]:
    """Return the document; of the ranks' environment, only the variables in _SHOWN."""
    return {
        "master": [plan.master_addr, plan.master_port],
        "argv": list(plan.argv),
        "mpi": plan.mpi,
        "ddp": plan.ddp,
        "joins": plan.joins,
        "trains": plan.trains,
        "tuned": plan.tuned,
        "secret": list(plan.secret),
        "hosts": [of_host(host) for host in plan.hosts],
    }


def of_host(host: HostPlan) -> dict[str, object]:
    return {
        "name": host.host,
        "nic": host.nic,
        "threads": host.threads,
        "quota": host.quota,
        "env": {key: value for key, value in host.rank_env if key in _SHOWN},
        "ranks": [
            [place.rank, place.local_rank, fold_numbers(place.cpus), place.node]
            for place in host.ranks
        ],
    }


@dataclass(frozen=True)
class _Host:
    name: str
    nic: str
    threads: int | None
    quota: float | None
    env: dict[str, Line]
    ranks: tuple[tuple[int, int, str, int | None], ...]

    @property
    def plan(self) -> HostPlan:
        return HostPlan(
            host=self.name,
            label=self.name,
            prefix="",
            nic=self.nic,
            threads=self.threads,
            quota=self.quota,
            ranks=tuple(
                RankPlace(rank, local_rank, cpus_of(cpus), node=node)
                for rank, local_rank, cpus, node in self.ranks
            ),
            env=(),
            rank_env=tuple((key, self.env[key]) for key in _SHOWN if key in self.env),
        )


@dataclass(frozen=True)
class _Shown:
    master: tuple[str, int]
    argv: tuple[Line, ...]
    hosts: tuple[_Host, ...]
    mpi: str = ""
    ddp: bool = False
    joins: bool = True
    trains: bool = True
    tuned: bool = False
    secret: tuple[str, ...] = ()


def read_shown_plan(raw: Any, run_id: str) -> LaunchPlan | None:
    """Read a plan; None for anything else: the document comes from a host."""
    try:
        shown = Answer("", raw).read(_Shown)
    except HostFailed:
        return None
    hosts = tuple(host.plan for host in shown.hosts)
    ranks = [place.rank for host in hosts for place in host.ranks]
    names = {host.host for host in hosts}
    if not hosts or sorted(ranks) != list(range(len(ranks))) or len(names) != len(hosts):
        return None
    return LaunchPlan(
        hosts,
        *shown.master,
        argv=shown.argv,
        mpirun=(),
        machinefile="",
        mpi=shown.mpi,
        run_id=run_id,
        ddp=shown.ddp,
        joins=shown.joins,
        trains=shown.trains,
        tuned=shown.tuned,
        secret=shown.secret,
    )
