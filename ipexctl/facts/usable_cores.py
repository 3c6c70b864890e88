"""The cores of a host that this account may use, by NUMA node, and how many ranks fit on them."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from ipexctl.facts.cpu_facts import Cpu, CpuFacts

Core = tuple[int, ...]  # the ids of its threads


def list_cores(cpu: CpuFacts) -> tuple[Core, ...]:
    """Return the physical cores this user may run on, in NUMA order.

    Threads of one core that appear in two nodes are one core, which never gets two ranks.
    """
    allowed = None if cpu.allowed is None else set(cpu.allowed)
    cores: dict[object, list[Cpu]] = {}
    for c in {c.id: c for c in cpu.cpus}.values():
        if allowed is None or c.id in allowed:
            # a CPU with an unknown core id counts as a core
            key = (c.socket, c.core) if c.core is not None else c.id
            cores.setdefault(key, []).append(c)
    in_order = sorted(
        (sorted(threads, key=lambda c: c.id) for threads in cores.values()), key=_core_order
    )
    return tuple(tuple(c.id for c in threads) for threads in in_order)


def _core_order(core: list[Cpu]) -> tuple[int, int, int]:
    return core[0].node or 0, core[0].socket or 0, core[0].id


def fast_cores(cpu: CpuFacts) -> tuple[Core, ...]:
    """Return the cores for ranks: without the slower ones, unless only those may be used."""
    slow = set(cpu.efficient)
    all_of_them = list_cores(cpu)
    return tuple(core for core in all_of_them if not slow & set(core)) or all_of_them


def numa_nodes(cpu: CpuFacts) -> int:
    """Return the number of NUMA nodes with usable CPUs. One with only memory holds no rank."""
    allowed = None if cpu.allowed is None else set(cpu.allowed)
    return len({core.node or 0 for core in cpu.cpus if allowed is None or core.id in allowed}) or 1


def default_ranks(cpu: CpuFacts) -> int:
    """Return the default number of ranks on a host: one per NUMA node with CPUs.

    If a control group's quota of CPU time fills only some nodes, it is the number of those.
    """
    nodes = numa_nodes(cpu)
    if cpu.quota is None:
        return nodes
    smallest = min((len(node) for node in by_node(cpu)), default=1)
    return max(1, min(nodes, ceil(cpu.quota / smallest)))


def by_node(cpu: CpuFacts) -> list[tuple[Core, ...]]:
    """Return the cores that ranks compute on, one group for each NUMA node."""
    node_of = {thread.id: thread.node or 0 for thread in cpu.cpus}
    groups: dict[int, list[Core]] = {}
    for core in fast_cores(cpu):
        groups.setdefault(node_of[core[0]], []).append(core)
    return [tuple(cores) for _, cores in sorted(groups.items())]


def similar_sizes(nodes: Sequence[Sequence[object]]) -> bool:
    """Decide if a rank on the smallest node hardly delays the others: 42 of 43 cores."""
    sizes = [len(node) for node in nodes]
    return min(sizes) >= 0.75 * max(sizes)
