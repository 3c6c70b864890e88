"""Assign a host's CPUs to its ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ipexctl.facts.cpu_facts import CpuFacts
from ipexctl.facts.facts import Facts
from ipexctl.facts.usable_cores import Core, by_node, fast_cores, similar_sizes
from ipexctl.quick_dataclass import dataclass


def cores_per_rank(cpu: CpuFacts, ranks: int) -> tuple[tuple[Core, ...], ...]:
    """Return the cores of each rank; () if there are fewer cores than ranks.

    A hybrid processor's slower cores are left out: every step would wait for them. Ranks stay
    within NUMA nodes if as many fit into each, and the nodes are about alike.
    """
    usable = fast_cores(cpu)
    if ranks > len(usable):
        return ()
    nodes = by_node(cpu)
    if similar_sizes(nodes) and ranks % len(nodes) == 0:
        per_node = ranks // len(nodes)
        if per_node <= min(map(len, nodes)):
            return tuple(part for node in nodes for part in _split_cores(node, per_node))
    return _split_cores(usable, ranks)


@dataclass(frozen=True)
class CoreBlock:
    """Cores and threads that one rank gets."""

    cpus: tuple[int, ...]  # for computing; () if the host's CPUs are unknown
    comm: tuple[int, ...]  # its communication threads run there
    node: int | None  # all of it is in this NUMA node, which has memory that we may use


@dataclass(frozen=True)
class Places:
    """Placement of the ranks of one host on its cores."""

    parts: tuple[CoreBlock, ...]
    threads: int | None  # OpenMP threads of each rank; None if the host's CPUs are unknown
    capped: bool = False  # fewer threads than cores, for the control group's quota
    shared: bool = False  # more ranks than cores: each may run on all of them
    crowded: bool = False  # too few cores for communication threads to have their own


def place_ranks(facts: Facts, ranks: int, workers: int = 0, requested: int | None = None) -> Places:
    """Give each rank neighbouring cores, with one thread of each; `workers` of them communicate.

    All ranks of a host compute with equally many threads: none waits for another. `requested`: the
    user's number of threads; if it exceeds the cores, a rank gets both threads of each core.
    """
    cpu = facts.cpu
    rank_cores = cores_per_rank(cpu, ranks)
    if not rank_cores:
        return _shared_places(cpu, ranks, workers)
    blocks, crowded = [], False
    for cores in rank_cores:
        computing, comm = _for_comm(cores, workers)
        crowded |= bool(set(comm) & {core[0] for core in computing})
        blocks.append(CoreBlock(tuple(core[0] for core in computing), comm, _node_of(facts, cores)))
    threads = min(len(block.cpus) for block in blocks)
    if requested and requested > threads and not workers:
        blocks = [
            replace(block, cpus=(*block.cpus, *(cpu for core in cores for cpu in core[1:])))
            for block, cores in zip(blocks, rank_cores, strict=True)
        ]
    budget = threads if cpu.quota is None else max(1, int(cpu.quota / ranks) - workers)
    return Places(tuple(blocks), min(threads, budget), capped=budget < threads, crowded=crowded)


def _shared_places(cpu: CpuFacts, ranks: int, workers: int) -> Places:
    """Let all ranks share the cores: there are fewer cores than ranks."""
    usable = tuple(sorted(core[0] for core in fast_cores(cpu)))
    if not usable:
        return Places((CoreBlock((), (), None),) * ranks, None)
    blocks = []
    for rank in range(ranks):
        comm = tuple(usable[(rank * workers + worker) % len(usable)] for worker in range(workers))
        blocks.append(CoreBlock(usable, comm, None))
    return Places(tuple(blocks), 1, shared=True, crowded=workers > 0)


def _for_comm(cores: tuple[Core, ...], workers: int) -> tuple[tuple[Core, ...], tuple[int, ...]]:
    """Reserve the last cores of a part; if it has no others, second threads of its cores."""
    if not workers:
        return cores, ()
    if len(cores) > workers:
        return cores[:-workers], tuple(core[0] for core in cores[-workers:])
    spare = [cpu for core in cores for cpu in core[1:]] or [core[0] for core in cores]
    return cores, tuple(spare[worker % len(spare)] for worker in range(workers))


def _node_of(facts: Facts, cores: tuple[Core, ...]) -> int | None:
    node_of = {cpu.id: cpu.node for cpu in facts.cpu.cpus}
    nodes = {node_of[core[0]] for core in cores}
    with_memory = {n.id for n in facts.nodes if n.mem_total}
    allowed = with_memory if facts.mem.mems is None else with_memory & set(facts.mem.mems)
    node = nodes.pop()
    return node if not nodes and node in allowed else None


def _split_cores(usable: Sequence[Core], ranks: int) -> tuple[tuple[Core, ...], ...]:
    size, extra = divmod(len(usable), ranks)
    edges = [rank * size + min(rank, extra) for rank in range(ranks + 1)]
    return tuple(tuple(usable[start:end]) for start, end in pairwise(edges))
