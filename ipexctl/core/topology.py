"""A host's CPUs -> which of them each rank gets."""

from __future__ import annotations

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

    A hybrid processor's slower cores are left out: every step would wait for them.

    More ranks than cores: every rank gets all of them and the kernel shares them out.
    """
    usable = [core[0] for core in fast_cores(cpu)]
    if ranks > len(usable):
        return (tuple(sorted(usable)),) * ranks
    each, more = divmod(len(usable), ranks)
    out, start = [], 0
    for r in range(ranks):
        size = each + (1 if r < more else 0)
        out.append(tuple(usable[start : start + size]))
        start += size
    return tuple(out)


def threads(cpu: CpuFacts, ranks: int) -> int:
    """OpenMP threads per rank: the same for all ranks of a host, so that none waits for another."""
    return max(1, len(fast_cores(cpu)) // ranks)
