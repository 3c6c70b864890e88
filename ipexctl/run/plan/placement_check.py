"""Compare where ranks run with the plan: CPUs, network interface, instruction sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.core_map import cpu_list
from ipexctl.run.plan.launch import HostPlan, LaunchPlan, RankPlace


@dataclass(frozen=True)
class Where:
    """What a rank's wrapper measured just before the script began. None: unknown."""

    cpus: tuple[int, ...] | None = None
    nic: str | None = None  # by which the kernel would send to MASTER_ADDR
    missing: tuple[str, ...] | None = None  # instruction sets of the plan that are not there
    mounted: bool = False  # its /proc/cpuinfo is a mount, which does not describe the processor
    memory: bool | None = None  # whether its NUMA node is preferred


@dataclass
class Placed:
    """Collects the reports of ranks; once complete, reports differences from the plan."""

    plan: LaunchPlan
    said: dict[int, Where] = field(default_factory=dict)

    def add(self, rank: int, where: Where) -> tuple[str, ...]:
        """Notes for the user, equal ones of several hosts once."""
        self.said[rank] = where
        if len(self.said) < self.plan.world_size:
            return ()
        found: dict[str, list[str]] = {}
        for host in self.plan.hosts:
            for text in dict.fromkeys(_of_host(host, self.said, self.plan)):
                found.setdefault(text, []).append(host.host)
        return tuple(f"{fold(hosts)}: {text}" for text, hosts in found.items())


def _of_host(host: HostPlan, said: Mapping[int, Where], plan: LaunchPlan) -> Iterator[str]:
    planned_nic = dict(host.rank_env).get("GLOO_SOCKET_IFNAME", host.nic)
    for place in host.ranks:
        where = said[place.rank]
        yield from _cpus(place, where)
        if where.nic and where.nic != planned_nic:
            yield (
                f"the route to {plan.master_addr} uses {where.nic}, but the plan says {planned_nic}"
            )
        if where.missing:
            yield f"no {', '.join(where.missing)} there, which the processor is said to have"
        if where.mounted:
            yield "/proc/cpuinfo is a mount (a lab, or a container): instruction sets not compared"


def _cpus(place: RankPlace, where: Where) -> Iterator[str]:
    if where.cpus is not None and place.cpus and set(where.cpus) != set(place.cpus):
        yield (
            f"rank {place.rank} runs on CPUs {cpu_list(where.cpus)}, "
            f"but the plan says {cpu_list(place.cpus)}"
        )
