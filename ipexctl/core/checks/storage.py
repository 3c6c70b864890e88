"""Memory, /dev/shm and the disk that holds ipexctl's root."""

from __future__ import annotations

from ipexctl.core.checks.cluster import GIB, MIB, size
from ipexctl.core.model import Facts, Finding, Severity

MEMORY_FAIL = 512 * MIB  # importing torch alone takes about this much
MEMORY_WARN = 2 * GIB
SHM_FAIL = 16 * MIB  # one rank's segment of an MPI or of oneCCL
SHM_WARN = 256 * MIB
SHM_FREE = 64 * MIB
DISK_FAIL = 1 * GIB
DISK_WARN = 4 * GIB  # the CPU stack, its wheels, and a second version beside it
INODES = 40_000  # files of the CPU stack


def memory(facts: Facts) -> list[Finding]:
    known = [n for n in (facts.mem.available, facts.mem.limit) if n is not None]
    if not known or min(known) >= MEMORY_WARN:
        return []
    limited = facts.mem.limit is not None and facts.mem.limit == min(known)
    return [
        Finding(
            id="MEM-001",
            severity=Severity.FAIL if min(known) < MEMORY_FAIL else Severity.WARN,
            host=facts.host,
            title="little memory",
            evidence=f"{size(min(known))} " + ("allowed by the cgroup" if limited else "available"),
            why="Importing torch takes about 0.5 GiB per rank, before the model, its gradients and "
            "the optimizer's state. The kernel kills what does not fit.",
            fix="raise the container's memory limit"
            if limited
            else "see who uses it: ps -eo rss,user,comm --sort=-rss | head",
        )
    ]


def shared_memory(facts: Facts) -> list[Finding]:
    total, free = facts.mem.shm_total, facts.mem.shm_free
    if total is None or free is None:
        return []
    if total < SHM_WARN:
        return [
            Finding(
                id="SHM-001",
                severity=Severity.FAIL if total < SHM_FAIL else Severity.WARN,
                host=facts.host,
                title="/dev/shm is small",
                evidence=f"{size(total)} in all",
                why="Ranks on one host and DataLoader workers pass data through /dev/shm. When it "
                "is full they die with a bus error. Docker's default is 64 MiB.",
                fix="docker run --shm-size=8g ...   or   sudo mount -o remount,size=50% /dev/shm",
            )
        ]
    if free < SHM_FREE:
        return [
            Finding(
                id="SHM-002",
                severity=Severity.WARN,
                host=facts.host,
                title="/dev/shm is nearly full",
                evidence=f"{size(free)} free of {size(total)}",
                why="Ranks and DataLoader workers die with a bus error when it is full. Killed "
                "trainings leave files there.",
                fix="ls -l /dev/shm   and remove what no running process of yours needs",
            )
        ]
    return []


def disk(facts: Facts) -> list[Finding]:
    at = facts.disk
    where = f"{at.root} ({at.filesystem})" if at.filesystem else at.root
    found = []
    if at.writable is False:
        found.append(
            _fails(
                facts,
                "DISK-001",
                "ipexctl's folder cannot be written",
                f"{where}: no permission for {facts.user or 'this user'}, or mounted read-only",
                "Environments, code and logs of runs live there.",
            )
        )
    if at.noexec:
        found.append(
            _fails(
                facts,
                "DISK-002",
                "ipexctl's folder is on a file system without exec",
                f"{where}: mounted noexec",
                "Libraries and programs of the environment cannot be loaded from it.",
            )
        )
    if at.free is not None and at.free < DISK_WARN:
        found.append(
            Finding(
                id="DISK-003",
                severity=Severity.FAIL if at.free < DISK_FAIL else Severity.WARN,
                host=facts.host,
                title="little disk space",
                evidence=f"{where}: {size(at.free)} free",
                why="The CPU stack takes about 2 GiB; checkpoints and logs come on top.",
                fix=f"free some space, or use another disk: --root /path   (df -h {at.root})",
            )
        )
    if at.free_inodes is not None and at.free_inodes < INODES:
        found.append(
            _fails(
                facts,
                "DISK-004",
                "the file system has few inodes left",
                f"{where}: {at.free_inodes} inodes free",
                f"The stack has some {INODES:,} files, and each needs an inode.",
            )
        )
    return found


def _fails(facts: Facts, number: str, title: str, evidence: str, why: str) -> Finding:
    return Finding(
        id=number,
        severity=Severity.FAIL,
        host=facts.host,
        title=title,
        evidence=evidence,
        why=why,
        fix="use a folder on another disk: --root /path",
    )
