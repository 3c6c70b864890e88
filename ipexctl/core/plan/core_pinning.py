"""A host's CPUs -> which of them each rank gets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil

from ipexctl.core.model import Cpu, CpuFacts, Facts
from ipexctl.quick_dataclass import dataclass

Core = tuple[int, ...]  # the ids of its threads


def cores(cpu: CpuFacts) -> tuple[Core, ...]:
    """The physical cores this user may run on, in NUMA order.

    Threads of one core that claim to be in two nodes stay one core: never two ranks on it.
    """
    allowed = None if cpu.allowed is None else set(cpu.allowed)
    found: dict[object, list[Cpu]] = {}
    for c in {c.id: c for c in cpu.cpus}.values():
        if allowed is None or c.id in allowed:
            # an unknown core id means: a core of its own
            key = (c.socket, c.core) if c.core is not None else c.id
            found.setdefault(key, []).append(c)
    in_order = sorted((sorted(same, key=lambda c: c.id) for same in found.values()), key=_order)
    return tuple(tuple(c.id for c in same) for same in in_order)


def _order(core: list[Cpu]) -> tuple[int, int, int]:
    return core[0].node or 0, core[0].socket or 0, core[0].id


def fast_cores(cpu: CpuFacts) -> tuple[Core, ...]:
    """Those a rank computes on; all of them where only slower ones are ours."""
    slow = set(cpu.efficient)
    all_of_them = cores(cpu)
    return tuple(core for core in all_of_them if not slow & set(core)) or all_of_them


def numa_nodes(cpu: CpuFacts) -> int:
    """NUMA nodes that have CPUs we may use. A node of memory alone holds no rank."""
    allowed = None if cpu.allowed is None else set(cpu.allowed)
    return len({c.node or 0 for c in cpu.cpus if allowed is None or c.id in allowed}) or 1


def default_ranks(cpu: CpuFacts) -> int:
    """Ranks of a host when nobody says how many: one per NUMA node with CPUs.

    A control group's quota of CPU time may fill fewer nodes: as many as it takes, no more.
    """
    nodes = numa_nodes(cpu)
    if cpu.quota is None:
        return nodes
    smallest = min((len(node) for node in by_node(cpu)), default=1)
    return max(1, min(nodes, ceil(cpu.quota / smallest)))


def cores_per_rank(cpu: CpuFacts, ranks: int) -> tuple[tuple[Core, ...], ...]:
    """The cores of each rank; () where there are fewer cores than ranks.

    A hybrid processor's slower cores are left out: every step would wait for them. Ranks stay
    within NUMA nodes where as many fit into each, and the nodes are about alike.
    """
    usable = fast_cores(cpu)
    if ranks > len(usable):
        return ()
    nodes = by_node(cpu)
    if similar_sizes(nodes) and ranks % len(nodes) == 0:
        per_node = ranks // len(nodes)
        if per_node <= min(map(len, nodes)):
            return tuple(part for node in nodes for part in _split(node, per_node))
    return _split(usable, ranks)


@dataclass(frozen=True)
class Part:
    """What one rank gets of its host."""

    cpus: tuple[int, ...]  # it computes there; () nobody knows the host's CPUs
    comm: tuple[int, ...]  # its communication threads run there
    node: int | None  # all of it is in this NUMA node, which has memory that we may use


@dataclass(frozen=True)
class Places:
    """How the ranks of one host share it."""

    parts: tuple[Part, ...]
    threads: int | None  # OpenMP threads of each rank; None: nobody knows the host's CPUs
    capped: bool = False  # fewer threads than cores, for the control group's quota
    shared: bool = False  # more ranks than cores: each may run on all of them
    crowded: bool = False  # too few cores for communication threads to have their own


def place_ranks(facts: Facts, ranks: int, workers: int = 0) -> Places:
    """Whole cores, first thread each, neighbours together; `workers` cores of each for its comm.

    All ranks of a host compute with equally many threads, so that none waits for another.
    """
    cpu = facts.cpu
    mine = cores_per_rank(cpu, ranks)
    if not mine:
        return _shared(cpu, ranks, workers)
    made, crowded = [], False
    for part in mine:
        computing, comm = _for_comm(part, workers)
        crowded |= bool(set(comm) & {core[0] for core in computing})
        cpus = tuple(core[0] for core in computing)
        made.append(Part(cpus, comm, _node_of(facts, part)))
    threads = min(len(part.cpus) for part in made)
    budget = threads if cpu.quota is None else max(1, int(cpu.quota / ranks) - workers)
    return Places(tuple(made), min(threads, budget), capped=budget < threads, crowded=crowded)


def _shared(cpu: CpuFacts, ranks: int, workers: int) -> Places:
    usable = tuple(sorted(core[0] for core in fast_cores(cpu)))
    if not usable:
        return Places((Part((), (), None),) * ranks, None)
    made = []
    for rank in range(ranks):
        comm = tuple(usable[(rank * workers + w) % len(usable)] for w in range(workers))
        made.append(Part(usable, comm, None))
    return Places(tuple(made), 1, shared=True, crowded=workers > 0)


def _for_comm(part: tuple[Core, ...], workers: int) -> tuple[tuple[Core, ...], tuple[int, ...]]:
    """The last cores of a part; where it has no more than that, second threads of its cores."""
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


def by_node(cpu: CpuFacts) -> list[tuple[Core, ...]]:
    """The cores that ranks compute on, one group for each NUMA node."""
    node_of = {c.id: c.node or 0 for c in cpu.cpus}
    found: dict[int, list[Core]] = {}
    for core in fast_cores(cpu):
        found.setdefault(node_of[core[0]], []).append(core)
    return [tuple(cores) for _, cores in sorted(found.items())]


def similar_sizes(nodes: Sequence[Sequence[object]]) -> bool:
    """Whether a rank on the smallest node would hardly make the others wait: 42 of 43 cores."""
    sizes = [len(node) for node in nodes]
    return min(sizes) >= 0.75 * max(sizes)


def _split(usable: Sequence[Core], ranks: int) -> tuple[tuple[Core, ...], ...]:
    each, more = divmod(len(usable), ranks)
    edges = [rank * each + min(rank, more) for rank in range(ranks + 1)]
    return tuple(tuple(usable[a:b]) for a, b in pairwise(edges))
