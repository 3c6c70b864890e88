"""Memory: how much there is, what uses it, and how the kernel is configured to treat it."""

from __future__ import annotations

from ipexctl.base.sizes import GIB, MIB, binary_size
from ipexctl.doctor.checks.registry import Evidence, host_check
from ipexctl.doctor.report.finding import (
    Fix,
    Severity,
    Shell,
    command,
    do,
    scripted_sudo,
    sudo,
    write_line,
)
from ipexctl.facts import host_facts as of
from ipexctl.facts.facts import Facts

FAIL = 512 * MIB  # importing torch alone takes about this much
WARN = 2 * GIB
PER_CORE = 1 * GIB
SEE_DIMMS = sudo("dmidecode -t memory")
HUGE_PAGES = write_line("madvise", "/sys/kernel/mm/transparent_hugepage/enabled")

_SHM_OF_CONTAINER = do(
    command("docker run --shm-size=8g ..."), "   (Kubernetes: an emptyDir, medium: Memory)"
)
_RAISE = (
    "raise the memory limit (docker: --memory, Kubernetes: limits.memory, Slurm: --mem, systemd: "
    "MemoryMax)"
)
_WHO = do("see who uses it: ", command("ps -eo rss,user,comm --sort=-rss", pipe="head"))
_MORE_NODES = "allow more nodes (docker: --cpuset-mems, cgroup: cpuset.mems), if you expected more"


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
    known = [n for n in (mem.available, mem.limit, mem.limit_left) if n is not None]
    if not known or min(known) >= WARN:
        return None
    least = min(known)
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
    cores, ours = of.count_usable_cores(facts), of.usable_memory(facts)
    if not cores or ours is None or ours >= PER_CORE * cores or _small_part(facts):
        return None
    text = f"{binary_size(ours)} for {cores} cores"
    if ours == facts.mem.total:
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
    limit, used = facts.mem.commit_limit, facts.mem.committed
    if limit is None or used is None:
        return Evidence("vm.overcommit_memory is 2")
    left = max(0, limit - used)
    return Evidence(
        f"vm.overcommit_memory is 2, {binary_size(left)} left of {binary_size(limit)}",
        severity=Severity.FAIL if left < WARN else Severity.WARN,
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
    ours, total = of.usable_memory(facts), facts.mem.total
    return ours is not None and total is not None and ours * 2 < total


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


@host_check(
    "SHM-001",
    title="/dev/shm is small",
    severity=(Severity.WARN, Severity.FAIL),
    seen="/dev/shm has less than 256 MiB (fail: 16 MiB)",
    why="Ranks on one host and DataLoader workers pass data through /dev/shm. When it is full, "
    "they die with a bus error. Docker's default is 64 MiB.",
    fix=scripted_sudo("mount -o remount,size=50% /dev/shm"),
)
def shm_small(facts: Facts) -> Evidence | None:
    total = facts.mem.shm_total
    if total is None or total >= 256 * MIB:
        return None
    worse = Severity.FAIL if total < 16 * MIB else Severity.WARN
    fix = _SHM_OF_CONTAINER if facts.condition.system.in_container else ""
    return Evidence(f"{binary_size(total)} in all", severity=worse, fix=fix)


@host_check(
    "SHM-002",
    title="/dev/shm is nearly full",
    severity=Severity.WARN,
    seen="/dev/shm has less than 64 MiB free",
    why="Ranks and DataLoader workers die with a bus error when it is full. Killed runs leave "
    "files there.",
    fix=do(command("ls -l /dev/shm"), "   and remove what none of your running processes needs"),
)
def shm_full(facts: Facts) -> Evidence | None:
    total, free = facts.mem.shm_total, facts.mem.shm_free
    if total is None or free is None or total < 256 * MIB or free >= 64 * MIB:
        return None
    return Evidence(f"{binary_size(free)} free of {binary_size(total)}")


@host_check(
    "SHM-003",
    title="/dev/shm is missing",
    severity=Severity.FAIL,
    seen="/dev/shm does not exist",
    why="Intel MPI, oneCCL and DataLoader workers need it: Intel MPI aborts at startup.",
    fix=Shell(
        "sudo mkdir -m 1777 /dev/shm && sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm",
        needs_root=True,
        unattended=True,
    ),
)
def shm_missing(facts: Facts) -> Evidence | None:
    if facts.mem.shm_there is not False:
        return None
    if facts.mem.shm_read_only:
        return Evidence(
            "no such folder, and /dev is mounted read-only", fix=_shm_mount(facts, "/dev")
        )
    return Evidence("no such folder")


@host_check(
    "SHM-004",
    title="/dev/shm is not writable",
    severity=Severity.FAIL,
    seen="this user may not write to /dev/shm",
    why="Intel MPI, oneCCL and DataLoader workers create files there.",
    fix=scripted_sudo("chmod 1777 /dev/shm"),
)
def shm_not_writable(facts: Facts) -> Evidence | None:
    if facts.mem.shm_writable is not False:
        return None
    if facts.mem.shm_read_only:
        return Evidence("mounted read-only", fix=_shm_mount(facts, "/dev/shm"))
    return Evidence(f"no permission for {facts.user or 'this user'}")


def _shm_mount(facts: Facts, point: str) -> Fix:
    if facts.condition.system.in_container:
        return _SHM_OF_CONTAINER
    return do(sudo("mount -o remount,rw", point))
