"""The part of a run's plan that a viewer needs: kept in its first host's journal, for `attach`."""

from __future__ import annotations

from ipexctl.base.host_answer import Answer
from ipexctl.base.sizes import fold_numbers
from ipexctl.base.values import cpu_list as cpus_of
from ipexctl.common.message import Document
from ipexctl.common.shown_plans import ShownHost, ShownPlan
from ipexctl.errors import HostFailed
from ipexctl.run.plan.launch import HostPlan, LaunchPlan, RankPlace

# variables of the ranks that hold no secret
_SHOWN = (
    "IPEXCTL_BACKEND",
    "GLOO_SOCKET_IFNAME",
    "IPEXCTL_COMPRESS",
    "IPEXCTL_SHARE",
    "OMP_NUM_THREADS",
)


def show_plan(plan: LaunchPlan) -> ShownPlan:
    """Return the part; of the ranks' environment, only the variables in _SHOWN."""
    return ShownPlan(
        master=(plan.master_addr, plan.master_port),
        argv=plan.argv,
        mpi=plan.mpi,
        ddp=plan.ddp,
        joins=plan.joins,
        trains=plan.trains,
        tuned=plan.tuned,
        secret=plan.secret,
        hosts=tuple(map(show_host, plan.hosts)),
    )


def show_host(host: HostPlan) -> ShownHost:
    return ShownHost(
        name=host.host,
        nic=host.nic,
        threads=host.threads,
        quota=host.quota,
        env={key: value for key, value in host.rank_env if key in _SHOWN},
        ranks=tuple(
            (place.rank, place.local_rank, fold_numbers(place.cpus), place.node)
            for place in host.ranks
        ),
    )


def _read_host(shown: ShownHost) -> HostPlan:
    return HostPlan(
        host=shown.name,
        label=shown.name,
        prefix="",
        nic=shown.nic,
        threads=shown.threads,
        quota=shown.quota,
        ranks=tuple(
            RankPlace(rank, local_rank, cpus_of(cpus), node=node)
            for rank, local_rank, cpus, node in shown.ranks
        ),
        env=(),
        rank_env=tuple((key, shown.env[key]) for key in _SHOWN if key in shown.env),
    )


def read_shown_plan(raw: Document | None, run_id: str) -> LaunchPlan | None:
    """Read a plan; None for anything else: the document comes from a host."""
    shown = read_shown(raw)
    return plan_of(shown, run_id) if shown else None


def read_shown(raw: Document | None) -> ShownPlan | None:
    try:
        return Answer("", raw).read(ShownPlan)
    except HostFailed:
        return None


def plan_of(shown: ShownPlan, run_id: str) -> LaunchPlan | None:
    """Return the plan, None if its hosts and ranks do not fit together."""
    hosts = tuple(map(_read_host, shown.hosts))
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
