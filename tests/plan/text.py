"""A whole plan as a few lines, so that a test can hold it against what somebody wrote by hand."""

from __future__ import annotations

from collections.abc import Iterable

from ipexctl.run.plan.launch import HostPlan, LaunchPlan, RankPlace

# told by other words of the text, or the same in every plan
_SAID = {"OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME", "IPEXCTL_BACKEND", "PYTHONUNBUFFERED"}


def of(plan: LaunchPlan) -> str:
    head = f"{plan.backend} {plan.master_addr}:{plan.master_port}"
    notes = [f"! {note}" for note in plan.notes]
    return "\n".join([head, *(line for host in plan.hosts for line in _host(host)), *notes])


def _host(host: HostPlan) -> Iterable[str]:
    env = dict(host.rank_env)
    threads = env.get("OMP_NUM_THREADS", "?")
    yield f"{host.host} {env['GLOO_SOCKET_IFNAME']} threads={threads}"
    yield from (f"  {_rank(place)}" for place in host.ranks)
    yield from (f"  {name}={value}" for name, value in host.rank_env if name not in _SAID)


def _rank(place: RankPlace) -> str:
    comm = f" comm {cpus(place.comm)}" if place.comm else ""
    node = f" node {place.node}" if place.node is not None else ""
    return f"r{place.rank} {cpus(place.cpus)}{comm}{node}"


def cpus(ids: Iterable[int]) -> str:
    """0-3,8"""
    spans: list[list[int]] = []
    for cpu in ids:
        if spans and cpu == spans[-1][1] + 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in spans) or "-"
