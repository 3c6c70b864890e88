"""The operating system of a host, its C library, and what happens at login and logout."""

from __future__ import annotations

import re

from ipexctl.doctor.checks.registry import Evidence, cluster_check, host_check
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.finding import Fix, Severity, Shell, command, do, scripted_sudo
from ipexctl.facts.facts import Facts
from ipexctl.machines.openssh import startup_files
from ipexctl.stack.version_table import maintained_rows


@host_check(
    "SYS-001",
    title="the C library is musl",
    severity=Severity.FAIL,
    seen="musl instead of glibc (Alpine)",
    why="PyTorch, IPEX and Intel MPI are built for glibc; none of them can be loaded here.",
    fix="use a distribution with glibc: Debian, Ubuntu, RHEL, Rocky, SUSE",
)
def musl(facts: Facts) -> Evidence | None:
    return Evidence(facts.libc) if facts.libc.startswith("musl") else None


@cluster_check(
    "SYS-002",
    title="glibc is too old",
    severity=(Severity.FAIL, Severity.NOTE),
    seen="stock PyTorch has no packages for this glibc (note: only some versions have them)",
    why="A package's name states the oldest glibc that it runs on (manylinux_2_28: 2.28): "
    "version `GLIBC_2.28' not found.",
    fix="use a newer system: RHEL 8, Debian 10, Ubuntu 20.04 and later have 2.28",
)
def old_glibc(cluster: CheckedHosts) -> list[Evidence]:
    evidence = []
    for facts in cluster.hosts:
        version = _glibc_version(facts)
        rows = maintained_rows(cluster.rows)
        served = [row for row in rows if version and row.glibc <= version]
        if version is None or len(served) == len(rows):
            continue
        severity = Severity.NOTE if served else Severity.FAIL
        text = f"packages for {', '.join(r.name for r in served[:3])}" if served else "no packages"
        evidence.append(Evidence(f"{facts.libc}: {text}", host=facts.host, severity=severity))
    return evidence


def _glibc_version(facts: Facts) -> tuple[int, int] | None:
    match = re.fullmatch(r"glibc (\d+)\.(\d+).*", facts.libc)
    return (int(match[1]), int(match[2])) if match else None


@host_check(
    "SYS-004",
    title="this host runs 32-bit programs",
    severity=Severity.FAIL,
    seen="the Python that answered is a 32-bit program, or the kernel is",
    why="There are no 32-bit packages of PyTorch.",
    fix="install a 64-bit system, or a 64-bit Python beside this one",
)
def thirty_two_bits(facts: Facts) -> Evidence | None:
    if facts.condition.system.bits != 32 and facts.cpu.arch not in ("i386", "i586", "i686"):
        return None
    return Evidence(f"32-bit Python, kernel {facts.cpu.arch}")


@host_check(
    "SYS-005",
    title="logind kills a user's processes at logout",
    severity=Severity.WARN,
    seen="KillUserProcesses=yes in logind.conf, a session of an ordinary user, no linger",
    why="When the SSH connection ends, logind kills everything started through it: detached "
    "runs, tmux, nohup.",
)
def kills_processes(facts: Facts) -> Evidence | None:
    system = facts.condition.system
    if not system.kill_user_processes or not _needs_linger(facts):
        return None
    return Evidence("KillUserProcesses=yes, no linger", fix=_enable_linger_fix(facts))


@host_check(
    "SYS-006",
    title="logind clears /dev/shm at logout",
    severity=Severity.NOTE,
    seen="RemoveIPC=yes (the default), a session of an ordinary user, no linger",
    why="When this user's last login ends, logind removes their shared memory and their files in "
    "/dev/shm: a detached run dies with a bus error. An attached run keeps a login open.",
)
def removes_ipc(facts: Facts) -> Evidence | None:
    if not facts.condition.system.remove_ipc or not _needs_linger(facts):
        return None
    return Evidence("RemoveIPC=yes, no linger", fix=_enable_linger_fix(facts))


def _needs_linger(facts: Facts) -> bool:
    """Decide whether logind may clean up after the user: a regular one, without lingering."""
    system = facts.condition.system
    return bool(system.session) and (facts.uid or 0) >= 1000 and not system.linger


def _enable_linger_fix(facts: Facts) -> Fix:
    if not facts.user:
        return do(Shell("sudo loginctl enable-linger $USER", needs_root=True))
    return do(scripted_sudo("loginctl enable-linger", facts.user))


@cluster_check(
    "SYS-008",
    title="Windows Subsystem for Linux",
    severity=(Severity.WARN, Severity.NOTE),
    seen="the kernel is Microsoft's WSL (note: it is the only host)",
    why="Its network is behind NAT: other machines cannot connect to it, so it can only train "
    "alone.",
    fix=do(
        "in %UserProfile%\\.wslconfig: [wsl2] networkingMode=mirrored; then ",
        command("wsl --shutdown"),
    ),
)
def wsl(cluster: CheckedHosts) -> list[Evidence]:
    severity = Severity.WARN if len(cluster.hosts) > 1 else Severity.NOTE
    hosts = [facts for facts in cluster.hosts if "microsoft" in facts.kernel.lower()]
    return [Evidence(facts.kernel, host=facts.host, severity=severity) for facts in hosts]


SLOW_LOGIN = 3  # seconds


@host_check(
    "SOFT-028",
    title="the start-up files of the login shell are slow",
    severity=Severity.WARN,
    seen=f"more than {SLOW_LOGIN} s from the start of the login shell to that of its command",
    why="Every command over SSH waits for them, on every host: those of ipexctl, and mpirun's "
    "daemons, which give up after some time.",
)
def slow_login(facts: Facts) -> Evidence | None:
    system = facts.condition.system
    if system.login_ms is None or system.login_ms <= SLOW_LOGIN * 1000:
        return None
    files = startup_files.FILES.get(
        system.login_shell, (f"those of {system.login_shell or 'the shell'}",)
    )
    return Evidence(
        f"{system.login_ms / 1000:.1f} s before the command starts, in {' or '.join(files)}",
        fix="leave what is slow (module load, conda, file servers) to interactive shells; in bash, "
        "before it: case $- in *i*) ;; *) return ;; esac",
    )
