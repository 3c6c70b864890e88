"""Memory and swap: how much there is, and what limits or uses it."""

from __future__ import annotations

from ipexctl.base.sizes import GIB, MIB, binary_size
from ipexctl.doctor.checks.registry import Evidence, host_check
from ipexctl.doctor.report.finding import Severity, Shell, command, do, sudo
from ipexctl.facts import host_facts as of
from ipexctl.facts.facts import Facts

SEE_DIMMS = sudo("dmidecode -t memory")

_RAISE = (
    "raise the memory limit (docker: --memory, Kubernetes: limits.memory, Slurm: --mem, systemd: "
    "MemoryMax)"
)
_WHO = do("see who uses it: ", command("ps -eo rss,user,comm --sort=-rss", pipe="head"))
_MORE_NODES = "allow more nodes (docker: --cpuset-mems, cgroup: cpuset.mems), if you expected more"


FAIL = 512 * MIB  # importing torch alone takes about this much
WARN = 2 * GIB


@host_check(
    "MEM-001",
    title="little memory",
    severity=(Severity.WARN, Severity.FAIL),
    seen="less than 2 GiB (fail: 0.5 GiB) is available, allowed by the cgroup, or left within its "
    "limit",
    why="Importing torch takes about 0.5 GiB per rank, before the model, its gradients and the "
    "optimizer's state. The kernel kills processes that do not fit.",
    fix=_WHO,
)
def little(facts: Facts) -> Evidence | None:
    mem = facts.mem
    amounts = [n for n in (mem.available, mem.limit, mem.limit_left) if n is not None]
    if not amounts or min(amounts) >= WARN:
        return None
    least = min(amounts)
    severity = Severity.FAIL if least < FAIL else Severity.WARN
    if mem.limit == least:
        text = f"{binary_size(least)} allowed by the cgroup"
        return Evidence(text, severity=severity, fix=_RAISE)
    if mem.limit is not None and mem.limit_left == least:
        return Evidence(
            f"{binary_size(least)} left of the {binary_size(mem.limit)} that the cgroup allows",
            severity=severity,
            fix=do(_RAISE) | _WHO,
        )
    return Evidence(f"{binary_size(least)} available", severity=severity)


PER_CORE = 1 * GIB


@host_check(
    "MEM-002",
    title="little memory for this many cores",
    severity=Severity.NOTE,
    seen="less than 1 GiB for each core",
    why="Servers usually have 4 to 16 GiB per core. Missing modules also mean fewer memory "
    "channels and less bandwidth.",
    fix=do(SEE_DIMMS, " shows which slots are empty"),
)
def per_core(facts: Facts) -> Evidence | None:
    """Report too little memory per core, except where MEM-009 reports the reason."""
    cores, memory = of.count_usable_cores(facts), of.usable_memory(facts)
    if not cores or memory is None or memory >= PER_CORE * cores or _small_part(facts):
        return None
    text = f"{binary_size(memory)} for {cores} cores"
    if memory == facts.mem.total:
        return Evidence(text)
    return Evidence(text, why="Each core's share of the batch must fit in it.", fix=_RAISE)


@host_check(
    "MEM-003",
    title="the host is swapping",
    severity=(Severity.NOTE, Severity.WARN),
    seen="more than 1 GiB of swap is in use (warn: and less than a tenth of memory is available)",
    why="A rank that needs swapped pages waits for a disk, and all hosts wait for the rank.",
    fix=do(
        "free memory first, then: ", Shell("sudo swapoff -a && sudo swapon -a", needs_root=True)
    ),
)
def swapping(facts: Facts) -> Evidence | None:
    mem = facts.mem
    if mem.swap_total is None or mem.swap_free is None or mem.swap_total - mem.swap_free < GIB:
        return None
    short = mem.available is not None and mem.total and mem.available < mem.total / 10
    used, total = binary_size(mem.swap_total - mem.swap_free), binary_size(mem.swap_total)
    return Evidence(
        f"{used} of {total} swap in use",
        severity=Severity.WARN if short else Severity.NOTE,
    )


@host_check(
    "MEM-009",
    title="the control group may use only part of the memory",
    severity=Severity.NOTE,
    seen="a cgroup limit, or the memory of the allowed NUMA nodes, is below half of the host's "
    "memory",
    why="The kernel kills a rank that goes beyond it (exit 137), whatever `free` shows.",
    fix=f"{_RAISE}, if you expected more",
)
def limited(facts: Facts) -> Evidence | None:
    limit, total = of.usable_memory(facts), facts.mem.total
    if limit is None or total is None or limit < WARN or not _small_part(facts):
        return None
    text = f"{binary_size(limit)} of {binary_size(total)}"
    if limit == facts.mem.limit:
        return Evidence(text)
    nodes = ", ".join(map(str, facts.mem.mems or ()))
    return Evidence(f"{text}: cpuset.mems allows NUMA nodes {nodes}", fix=_MORE_NODES)


def _small_part(facts: Facts) -> bool:
    usable, total = of.usable_memory(facts), facts.mem.total
    return usable is not None and total is not None and usable * 2 < total


@host_check(
    "MEM-010",
    title="a lot of memory is reserved as huge pages",
    severity=Severity.WARN,
    seen="more than a quarter of the memory is reserved in hugetlbfs (vm.nr_hugepages)",
    why="Neither torch nor MPI uses it, and no other process can.",
    fix=do(
        sudo("sysctl vm.nr_hugepages=0"), "   (unless a database or a virtual machine needs them)"
    ),
)
def reserved_huge_pages(facts: Facts) -> Evidence | None:
    huge, total = facts.mem.huge, facts.mem.total
    if not huge or not total or huge * 4 <= total:
        return None
    return Evidence(f"{binary_size(huge)} of {binary_size(total)}")
