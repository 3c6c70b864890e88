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
    """What one rank gets of its host."""

    cpus: tuple[int, ...]  # for computing; () if the host's CPUs are unknown
    comm: tuple[int, ...]  # its communication threads run there
    node: int | None  # all of it is in this NUMA node, which has memory that we may use


@dataclass(frozen=True)
class Places:
    """How the ranks of one host share it."""

    parts: tuple[CoreBlock, ...]
    threads: int | None  # OpenMP threads of each rank; None if the host's CPUs are unknown
    capped: bool = False  # fewer threads than cores, for the control group's quota
    shared: bool = False  # more ranks than cores: each may run on all of them
    crowded: bool = False  # too few cores for communication threads to have their own


def place_ranks(facts: Facts, ranks: int, workers: int = 0, asked: int | None = None) -> Places:
    """Assign whole cores, first threads, neighbours together; `workers` cores of each for its comm.

    All ranks of a host compute with equally many threads, so that none waits for another. `asked`:
    the user's own number of threads; if that exceeds the cores, a rank gets both threads of each.
    """
    cpu = facts.cpu
    mine = cores_per_rank(cpu, ranks)
    if not mine:
        return _shared_places(cpu, ranks, workers)
    made, crowded = [], False
    for part in mine:
        computing, comm = _for_comm(part, workers)
        crowded |= bool(set(comm) & {core[0] for core in computing})
        made.append(CoreBlock(tuple(core[0] for core in computing), comm, _node_of(facts, part)))
    threads = min(len(part.cpus) for part in made)
    if asked and asked > threads and not workers:
        made = [
            replace(one, cpus=(*one.cpus, *(cpu for core in part for cpu in core[1:])))
            for one, part in zip(made, mine, strict=True)
        ]
    budget = threads if cpu.quota is None else max(1, int(cpu.quota / ranks) - workers)
    return Places(tuple(made), min(threads, budget), capped=budget < threads, crowded=crowded)


def _shared_places(cpu: CpuFacts, ranks: int, workers: int) -> Places:
    usable = tuple(sorted(core[0] for core in fast_cores(cpu)))
    if not usable:
        return Places((CoreBlock((), (), None),) * ranks, None)
    made = []
    for rank in range(ranks):
        comm = tuple(usable[(rank * workers + w) % len(usable)] for w in range(workers))
        made.append(CoreBlock(usable, comm, None))
    return Places(tuple(made), 1, shared=True, crowded=workers > 0)


def _for_comm(part: tuple[Core, ...], workers: int) -> tuple[tuple[Core, ...], tuple[int, ...]]:
    """Reserve the last cores of a part; if it has no others, second threads of its cores."""
    if not workers:
        return part, ()
    if len(part) > workers:
        return part[:-workers], tuple(core[0] for core in part[-workers:])
    spare = [cpu for core in part for cpu in core[1:]] or [core[0] for core in part]
    return part, tuple(spare[w % len(spare)] for w in range(workers))


def _node_of(facts: Facts, part: tuple[Core, ...]) -> int | None:
    node_of = {c.id: c.node for c in facts.cpu.cpus}
    found = {node_of[core[0]] for core in part}
    with_memory = {n.id for n in facts.nodes if n.mem_total}
    allowed = with_memory if facts.mem.mems is None else with_memory & set(facts.mem.mems)
    node = found.pop()
    return node if not found and node in allowed else None


def _split_cores(usable: Sequence[Core], ranks: int) -> tuple[tuple[Core, ...], ...]:
    each, more = divmod(len(usable), ranks)
    edges = [rank * each + min(rank, more) for rank in range(ranks + 1)]
    return tuple(tuple(usable[a:b]) for a, b in pairwise(edges))
