"""Limits of this login and of its control group. What is enough depends on the size of the run."""

from __future__ import annotations

from collections.abc import Iterator

from ipexctl.base.sizes import GIB, MIB, binary_size
from ipexctl.doctor.checks.registry import Evidence, cluster_check, host_check
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.finding import Fix, Severity, Shell, command, do, write_line
from ipexctl.facts import host_facts as of
from ipexctl.facts.facts import Facts
from ipexctl.facts.limits_facts import NO_LIMIT

_CONF = "/etc/security/limits.d/90-training.conf"  # pam_limits reads only *.conf


_BY_ULIMIT = do(Shell("grep -n ulimit ~/.bashrc ~/.profile"), "   and remove the line, if any")


@cluster_check(
    "LIM-001",
    title="the limit on open files is low for a run of this size",
    severity=(Severity.WARN, Severity.FAIL),
    seen="ulimit -n is below 512, or below 4 × ranks + 256 (fail: below the number of ranks)",
    why="Each rank keeps connections to the others, and mpirun on the first host has pipes to "
    "all of them: Too many open files.",
)
def open_files(cluster: CheckedHosts) -> list[Evidence]:
    needed = max(512, 4 * cluster.ranks + 256)
    return [
        Evidence(
            f"ulimit -n is {limit.soft} (hard {_limit_text(limit.hard)}), {cluster.ranks} ranks",
            host=facts.host,
            severity=Severity.FAIL if limit.hard < cluster.ranks + 64 else Severity.WARN,
            fix=_raise_limit_fix(facts, "nofile 65536"),
        )
        for facts in cluster.hosts
        if (limit := facts.condition.limits.nofile) and limit.soft < needed
    ]


@host_check(
    "LIM-003",
    title="the limit on processes and threads is low",
    severity=(Severity.WARN, Severity.FAIL),
    seen="ulimit -u is below 2 × CPUs + 256 (fail: below the number of CPUs)",
    why="Threads count as well: OpenMP alone starts one per core. Beyond the limit, "
    "pthread_create fails: Resource temporarily unavailable.",
)
def processes(facts: Facts) -> Evidence | None:
    limit = facts.condition.limits.nproc
    cpus = len(of.usable_cpus(facts) or ())
    if not limit or facts.uid == 0 or limit.soft >= 2 * cpus + 256:
        return None
    return Evidence(
        f"ulimit -u is {limit.soft}, {cpus} CPUs",
        severity=Severity.FAIL if limit.soft < cpus else Severity.WARN,
        fix=_raise_limit_fix(facts, "nproc 65536"),
    )


@host_check(
    "LIM-004",
    title="the control group's limit on processes and threads is low",
    severity=(Severity.WARN, Severity.FAIL),
    seen="pids.max is below 2 × CPUs + 256 (fail: below the number of CPUs)",
    why="Threads count as well. Beyond the limit, pthread_create fails: Resource temporarily "
    "unavailable.",
    fix=do(
        command("docker run --pids-limit -1 ..."), "; systemd: TasksMax=infinity in user-.slice"
    ),
)
def pids(facts: Facts) -> Evidence | None:
    limit = facts.condition.limits.pids
    cpus = len(of.usable_cpus(facts) or ())
    if limit is None or limit >= 2 * cpus + 256:
        return None
    severity = Severity.FAIL if limit < cpus else Severity.WARN
    return Evidence(f"pids.max is {limit}, {cpus} CPUs", severity=severity)


@host_check(
    "LIM-008",
    title="the size of files is limited",
    severity=(Severity.WARN, Severity.FAIL),
    seen="ulimit -f is lower than the memory, which a checkpoint can fill (fail: below 1 GiB, so "
    "that PyTorch itself cannot be installed)",
    why="A write beyond it ends with SIGXFSZ or `File too large`, although the disk has room.",
)
def file_size(facts: Facts) -> Evidence | None:
    limit, total = facts.condition.limits.file_size, of.usable_memory(facts)
    if not limit or limit.soft >= NO_LIMIT or (total is not None and limit.soft >= total):
        return None
    return Evidence(
        f"ulimit -f allows {binary_size(limit.soft)}",
        severity=Severity.FAIL if limit.soft < GIB else Severity.WARN,
        fix=_raise_limit_fix(facts, "fsize unlimited"),
    )


@host_check(
    "LIM-009",
    title="the limit on stack size is low",
    severity=(Severity.WARN, Severity.FAIL),
    seen="ulimit -s is below 2 MiB (fail: below 128 KiB, where PyTorch crashes at once)",
    why="Each thread gets a stack of this size, and one that is too small ends the process: "
    "Segmentation fault (SIGSEGV), with no hint of the cause.",
)
def stack_size(facts: Facts) -> Evidence | None:
    limit = facts.condition.limits.stack
    if not limit or limit.soft >= 2 * MIB:
        return None
    return Evidence(
        f"ulimit -s allows {binary_size(limit.soft)}",
        severity=Severity.FAIL if limit.soft < MIB // 8 else Severity.WARN,
        fix=_raise_limit_fix(facts, "stack 8192"),
    )


@host_check(
    "LIM-010",
    title="address space or CPU time is limited",
    severity=Severity.WARN,
    seen="ulimit -v is below 4 times the memory, or ulimit -t is set, as on login nodes",
    why="torch, oneDNN and MPI reserve far more address space than they use: std::bad_alloc, "
    "although memory is free. A rank with 56 threads uses up an hour of CPU time in about a "
    "minute, and is then killed without a message.",
)
def space_and_time(facts: Facts) -> Iterator[Evidence]:
    total = of.usable_memory(facts)
    space, seconds = facts.condition.limits.address_space, facts.condition.limits.cpu_seconds
    if space and space.soft < NO_LIMIT and (total is None or space.soft < 4 * total):
        yield Evidence(
            f"ulimit -v allows {binary_size(space.soft)}",
            fix=_raise_limit_fix(facts, "as unlimited"),
        )
    if seconds and seconds.soft < NO_LIMIT:
        yield Evidence(
            f"ulimit -t allows {seconds.soft} s", fix=_raise_limit_fix(facts, "cpu unlimited")
        )


def _raise_limit_fix(facts: Facts, setting: str) -> Fix:
    """Return a fix that appends a line to the file, which may also hold other limits."""
    line = f"{facts.user or '*'} - {setting}"
    return do(write_line(line, _CONF, append=True), "   (then log in again)") | _BY_ULIMIT


def _limit_text(value: int) -> str:
    return "unlimited" if value >= NO_LIMIT else str(value)
