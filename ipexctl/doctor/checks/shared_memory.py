"""Shared memory: /dev/shm, and what ended MPI processes left there."""

from __future__ import annotations

from ipexctl.base.sizes import GIB, MIB, binary_size
from ipexctl.doctor.checks.registry import Evidence, host_check
from ipexctl.doctor.report.finding import Fix, Severity, Shell, command, do, scripted_sudo, sudo
from ipexctl.facts.facts import Facts

_SHM_OF_CONTAINER = do(
    command("docker run --shm-size=8g ..."), "   (Kubernetes: an emptyDir, medium: Memory)"
)


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
    severity = Severity.FAIL if total < 16 * MIB else Severity.WARN
    fix = _SHM_OF_CONTAINER if facts.condition.system.in_container else ""
    return Evidence(f"{binary_size(total)} in all", severity=severity, fix=fix)


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


@host_check(
    "SOFT-023",
    title="shared memory left behind by MPI processes that have ended",
    severity=(Severity.NOTE, Severity.WARN),
    seen="files left in /dev/shm by MPI processes that have ended; warn from 1 GiB",
    why="Killed ranks, and torch-ccl when it exits, leave segments there. When they fill "
    "/dev/shm, new ranks die with a bus error.",
    fix=Shell(
        "for f in /dev/shm/[0-9]*:*:*; do p=${f##*/}; "
        '[ ! -O "$f" ] || [ -e /proc/${p%%:*} ] || rm "$f"; done',
        unattended=True,
    ),
)
def stale_memory(facts: Facts) -> Evidence | None:
    if not facts.software or not facts.software.stale:
        return None
    much = facts.software.stale_bytes >= GIB
    return Evidence(
        f"{facts.software.stale} files, {binary_size(facts.software.stale_bytes)}",
        severity=Severity.WARN if much else Severity.NOTE,
    )
