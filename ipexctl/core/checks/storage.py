"""Memory, /dev/shm and the disk that holds ipexctl's root."""

from __future__ import annotations

from ipexctl.core.checks.cluster import GIB, MIB, size
from ipexctl.core.checks.registry import Sight, host_check
from ipexctl.core.model import Facts, Severity

MEMORY_FAIL = 512 * MIB  # importing torch alone takes about this much
MEMORY_WARN = 2 * GIB
SHM_FAIL = 16 * MIB  # one rank's segment of an MPI or of oneCCL
SHM_WARN = 256 * MIB
SHM_FREE = 64 * MIB
DISK_FAIL = 1 * GIB
DISK_WARN = 4 * GIB  # the CPU stack, its wheels, and a second version beside it
INODES = 40_000  # files of the CPU stack
_ELSEWHERE = "use a folder on another disk: --root /path"


@host_check(
    "MEM-001",
    title="little memory",
    severity=(Severity.WARN, Severity.FAIL),
    seen="less than 2 GiB (0.5 GiB) available, or allowed by the cgroup",
    why="Importing torch takes about 0.5 GiB per rank, before the model, its gradients and the "
    "optimizer's state. The kernel kills what does not fit.",
    fix="see who uses it: ps -eo rss,user,comm --sort=-rss | head",
)
def memory(facts: Facts) -> Sight | None:
    known = [n for n in (facts.mem.available, facts.mem.limit) if n is not None]
    if not known or min(known) >= MEMORY_WARN:
        return None
    limited = facts.mem.limit is not None and facts.mem.limit == min(known)
    return Sight(
        f"{size(min(known))} " + ("allowed by the cgroup" if limited else "available"),
        severity=Severity.FAIL if min(known) < MEMORY_FAIL else Severity.WARN,
        fix="raise the container's memory limit" if limited else "",
    )


@host_check(
    "SHM-001",
    title="/dev/shm is small",
    severity=(Severity.WARN, Severity.FAIL),
    seen="/dev/shm has less than 256 MiB (16 MiB); Docker's default is 64 MiB",
    why="Ranks on one host and DataLoader workers pass data through /dev/shm. When it is full they "
    "die with a bus error. Docker's default is 64 MiB.",
    fix="docker run --shm-size=8g ...   or   sudo mount -o remount,size=50% /dev/shm",
)
def shared_memory_small(facts: Facts) -> Sight | None:
    total = facts.mem.shm_total
    if total is None or total >= SHM_WARN:
        return None
    worse = Severity.FAIL if total < SHM_FAIL else Severity.WARN
    return Sight(f"{size(total)} in all", severity=worse)


@host_check(
    "SHM-002",
    title="/dev/shm is nearly full",
    severity=Severity.WARN,
    seen="/dev/shm has less than 64 MiB free",
    why="Ranks and DataLoader workers die with a bus error when it is full. Killed trainings leave "
    "files there.",
    fix="ls -l /dev/shm   and remove what no running process of yours needs",
)
def shared_memory_full(facts: Facts) -> Sight | None:
    total, free = facts.mem.shm_total, facts.mem.shm_free
    if total is None or free is None or total < SHM_WARN or free >= SHM_FREE:
        return None
    return Sight(f"{size(free)} free of {size(total)}")


@host_check(
    "DISK-001",
    title="ipexctl's folder cannot be written",
    severity=Severity.FAIL,
    seen="the root folder, or the folder it would be made in, cannot be written",
    why="Environments, code and logs of runs live there.",
    fix=_ELSEWHERE,
)
def disk_not_writable(facts: Facts) -> Sight | None:
    if facts.disk.writable is not False:
        return None
    who = facts.user or "this user"
    return Sight(f"{_where(facts)}: no permission for {who}, or mounted read-only")


@host_check(
    "DISK-002",
    title="ipexctl's folder is on a file system without exec",
    severity=Severity.FAIL,
    seen="the root folder is on a file system mounted noexec",
    why="Libraries and programs of the environment cannot be loaded from it.",
    fix=_ELSEWHERE,
)
def disk_noexec(facts: Facts) -> Sight | None:
    return Sight(f"{_where(facts)}: mounted noexec") if facts.disk.noexec else None


@host_check(
    "DISK-003",
    title="little disk space",
    severity=(Severity.WARN, Severity.FAIL),
    seen="less than 4 GiB (1 GiB) free where the root folder is",
    why="The CPU stack takes about 2 GiB; checkpoints and logs come on top.",
)
def disk_space(facts: Facts) -> Sight | None:
    free = facts.disk.free
    if free is None or free >= DISK_WARN:
        return None
    return Sight(
        f"{_where(facts)}: {size(free)} free",
        fix=f"free some space, or use another disk: --root /path   (df -h {facts.disk.root})",
        severity=Severity.FAIL if free < DISK_FAIL else Severity.WARN,
    )


@host_check(
    "DISK-004",
    title="the file system has few inodes left",
    severity=Severity.FAIL,
    seen=f"fewer than {INODES:,} inodes free where the root folder is",
    why=f"The stack has some {INODES:,} files, and each needs an inode.",
    fix=_ELSEWHERE,
)
def disk_inodes(facts: Facts) -> Sight | None:
    free = facts.disk.free_inodes
    if free is None or free >= INODES:
        return None
    return Sight(f"{_where(facts)}: {free} inodes free")


def _where(facts: Facts) -> str:
    at = facts.disk
    return f"{at.root} ({at.filesystem})" if at.filesystem else at.root
