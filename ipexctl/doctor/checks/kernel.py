"""How the kernel treats memory: swappiness, huge pages, NUMA balancing, overcommit."""

from __future__ import annotations

from ipexctl.base.sizes import GIB, binary_size
from ipexctl.doctor.checks.registry import Evidence, host_check
from ipexctl.doctor.report.finding import Severity, scripted_sudo, write_line
from ipexctl.facts.facts import Facts

HUGE_PAGES = write_line("madvise", "/sys/kernel/mm/transparent_hugepage/enabled")


@host_check(
    "MEM-004",
    title="the kernel swaps eagerly",
    severity=Severity.NOTE,
    seen="vm.swappiness above 60, and there is swap",
    why="Reading a large data set can push a rank's memory out to disk.",
    fix=scripted_sudo("sysctl vm.swappiness=10"),
)
def swappiness(facts: Facts) -> Evidence | None:
    value = facts.condition.kernel.swappiness
    if value is None or value <= 60 or not facts.mem.swap_total:
        return None
    return Evidence(f"vm.swappiness is {value}, {binary_size(facts.mem.swap_total)} swap")


@host_check(
    "MEM-005",
    title="transparent huge pages are off",
    severity=Severity.NOTE,
    seen="transparent_hugepage/enabled is never",
    why="Large tensors in 4 KiB pages cause more TLB misses, and allocators cannot request "
    "larger pages.",
    fix=HUGE_PAGES,
)
def no_huge_pages(facts: Facts) -> Evidence | None:
    return Evidence("never") if facts.condition.kernel.thp == "never" else None


@host_check(
    "MEM-006",
    title="the kernel moves pages between NUMA nodes (numa_balancing)",
    severity=Severity.NOTE,
    seen="kernel.numa_balancing is on, and there are several NUMA nodes",
    why="Ranks are pinned, so their pages are already local; the kernel's sampling costs a few "
    "percent. Most distributions turn it on.",
    fix=scripted_sudo("sysctl kernel.numa_balancing=0"),
)
def numa_balancing(facts: Facts) -> Evidence | None:
    value = facts.condition.kernel.numa_balancing
    if not value or sum(bool(n.cpus) for n in facts.nodes) < 2:
        return None
    return Evidence(f"kernel.numa_balancing is {value}")


@host_check(
    "MEM-007",
    title="the kernel reclaims local memory before it uses another node's (zone_reclaim)",
    severity=Severity.WARN,
    seen="vm.zone_reclaim_mode is not 0, and there are several NUMA nodes",
    why="A rank on a full node stalls while the kernel drops cached files there, although other "
    "nodes have free memory. It is off by default.",
    fix=scripted_sudo("sysctl vm.zone_reclaim_mode=0"),
)
def zone_reclaim(facts: Facts) -> Evidence | None:
    value = facts.condition.kernel.zone_reclaim
    if not value or len(facts.nodes) < 2:
        return None
    return Evidence(f"vm.zone_reclaim_mode is {value}")


LEAST_LEFT = 2 * GIB


@host_check(
    "MEM-008",
    title="the kernel does not overcommit memory",
    severity=(Severity.WARN, Severity.FAIL),
    seen="vm.overcommit_memory is 2 (fail: and less than 2 GiB can still be committed)",
    why="torch, oneDNN and MPI reserve far more address space than they use, and fork() doubles "
    "it: Cannot allocate memory, although most of it is free.",
    fix=scripted_sudo("sysctl vm.overcommit_memory=0"),
)
def no_overcommit(facts: Facts) -> Evidence | None:
    if facts.condition.kernel.overcommit != 2:
        return None
    limit, committed = facts.mem.commit_limit, facts.mem.committed
    if limit is None or committed is None:
        return Evidence("vm.overcommit_memory is 2")
    remaining = max(0, limit - committed)
    return Evidence(
        f"vm.overcommit_memory is 2, {binary_size(remaining)} left of {binary_size(limit)}",
        severity=Severity.FAIL if remaining < LEAST_LEFT else Severity.WARN,
    )
