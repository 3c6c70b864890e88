"""A host's CPUs -> which of them each rank gets."""

from __future__ import annotations

from collections.abc import Sequence

from ipexctl.core.model import CpuFacts


def cores(cpu: CpuFacts) -> tuple[tuple[int, ...], ...]:
    """The physical cores this user may run on, in NUMA order; each the ids of its threads."""
    allowed = None if cpu.allowed is None else set(cpu.allowed)
    found: dict[tuple[int, int, int], list[int]] = {}
    for c in cpu.cpus:
        if allowed is None or c.id in allowed:
            # an unknown core id means: a core of its own
            core = c.core if c.core is not None else 1_000_000 + c.id
            found.setdefault((c.node or 0, c.socket or 0, core), []).append(c.id)
    return tuple(tuple(sorted(ids)) for _, ids in sorted(found.items()))


def fast_cores(cpu: CpuFacts) -> tuple[tuple[int, ...], ...]:
    """Those a rank computes on; all of them where only slower ones are ours."""
    slow = set(cpu.efficient)
    all_of_them = cores(cpu)
    return tuple(core for core in all_of_them if not slow & set(core)) or all_of_them


def numa_nodes(cpu: CpuFacts) -> int:
    """NUMA nodes that have CPUs we may use. A node of memory alone holds no rank."""
    allowed = None if cpu.allowed is None else set(cpu.allowed)
    return len({c.node or 0 for c in cpu.cpus if allowed is None or c.id in allowed}) or 1


def pin(cpu: CpuFacts, ranks: int) -> tuple[tuple[int, ...], ...]:
    """One tuple of logical CPUs per rank: whole cores, first thread each, neighbours together.

    A hybrid processor's slower cores are left out: every step would wait for them. Ranks stay
    within NUMA nodes where as many fit into each, and the nodes are about alike. More ranks than
    cores: every rank gets all of them and the kernel shares them out.
    """
    usable = fast_cores(cpu)
    if ranks > len(usable):
        return (tuple(sorted(core[0] for core in usable)),) * ranks
    nodes = by_node(cpu)
    if alike(nodes) and ranks % len(nodes) == 0:
        per_node = ranks // len(nodes)
        return tuple(part for node in nodes for part in _split(node, per_node))
    return _split(usable, ranks)


def threads(cpu: CpuFacts, ranks: int) -> int:
    """OpenMP threads per rank: the same for all ranks of a host, so that none waits for another."""
    if ranks > len(fast_cores(cpu)):
        return 1
    return min(len(cpus) for cpus in pin(cpu, ranks))


def by_node(cpu: CpuFacts) -> list[tuple[tuple[int, ...], ...]]:
    """The cores that ranks compute on, one group for each NUMA node."""
    node_of = {c.id: c.node or 0 for c in cpu.cpus}
    found: dict[int, list[tuple[int, ...]]] = {}
    for core in fast_cores(cpu):
        found.setdefault(node_of[core[0]], []).append(core)
    return [tuple(cores) for _, cores in sorted(found.items())]


def alike(nodes: Sequence[Sequence[object]]) -> bool:
    """Whether a rank on the smallest node would hardly make the others wait: 42 of 43 cores."""
    sizes = [len(node) for node in nodes]
    return min(sizes) >= 0.75 * max(sizes)


def _split(usable: Sequence[tuple[int, ...]], ranks: int) -> tuple[tuple[int, ...], ...]:
    each, more = divmod(len(usable), ranks)
    out, start = [], 0
    for r in range(ranks):
        size = each + (1 if r < more else 0)
        out.append(tuple(core[0] for core in usable[start : start + size]))
        start += size
    return tuple(out)
