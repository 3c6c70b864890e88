"""What a viewer needs of a run's plan: kept in the journal of its first host, for `attach`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipexctl.base.sizes import ranges
from ipexctl.base.values import count_or_none, listed, plain, texts
from ipexctl.facts.reader import cpu_list as cpus_of
from ipexctl.facts.reader import positive, positive_count
from ipexctl.run.plan.launch import HostPlan, LaunchPlan, RankPlace

# of the ranks' environment: for no secret
_SHOWN = (
    "IPEXCTL_BACKEND", "GLOO_SOCKET_IFNAME", "IPEXCTL_COMPRESS", "IPEXCTL_SHARE",
    "OMP_NUM_THREADS",
)  # fmt: skip


def document(plan: LaunchPlan) -> dict[str, object]:
    """Of the ranks' environment only what is in _SHOWN."""
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
            [place.rank, place.local_rank, ranges(place.cpus), place.node] for place in host.ranks
        ],
    }


def read(raw: Any, run_id: str) -> LaunchPlan | None:
    """None for anything that is not a plan: the document comes from a host."""
    if not isinstance(raw, Mapping):
        return None
    hosts = tuple(_host(one) for one in listed(raw.get("hosts")) if isinstance(one, Mapping))
    address, port = [*listed(raw.get("master")), None, None][:2]
    ranks = [place.rank for host in hosts for place in host.ranks]
    names = {host.host for host in hosts}
    if not hosts or sorted(ranks) != list(range(len(ranks))) or len(names) != len(hosts):
        return None
    return LaunchPlan(
        hosts,
        master_addr=plain(address, 255),
        master_port=count_or_none(port) or 0,
        argv=texts(raw.get("argv")),
        mpirun=(),
        machinefile="",
        mpi=plain(raw.get("mpi"), 40),
        run_id=run_id,
        ddp=raw.get("ddp") is True,
        joins=raw.get("joins") is not False,
        trains=raw.get("trains") is not False,
        tuned=raw.get("tuned") is True,
        secret=texts(raw.get("secret")),
    )


def _host(raw: Mapping[str, Any]) -> HostPlan:
    env = raw.get("env")
    shown = env if isinstance(env, Mapping) else {}
    name = plain(raw.get("name"), 255)
    return HostPlan(
        host=name,
        label=name,
        prefix="",
        nic=plain(raw.get("nic"), 64),
        threads=positive_count(raw.get("threads")),
        quota=positive(raw.get("quota")),
        ranks=tuple(filter(None, map(_place, listed(raw.get("ranks"))))),
        env=(),
        rank_env=tuple((key, plain(shown.get(key), 64)) for key in _SHOWN if key in shown),
    )


def _place(raw: Any) -> RankPlace | None:
    rank, local, cpus, node = [*listed(raw), None, None, None, None][:4]
    if count_or_none(rank) is None or count_or_none(local) is None:
        return None
    return RankPlace(rank, local, cpus_of(cpus), node=count_or_none(node))
