"""Python, the system around it, and other work on the host."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from ipexctl.doctor.checks.registry import Evidence, cluster_check, host_check
from ipexctl.doctor.report.cluster import CheckedHosts, install_command
from ipexctl.doctor.report.finding import (
    Fix,
    Severity,
    Shell,
    command,
    do,
    ipexctl_command,
    scripted_sudo,
    sudo,
)
from ipexctl.facts import host_facts as of
from ipexctl.facts.facts import Facts, Python
from ipexctl.facts.system_facts import Load
from ipexctl.install.stack.version_table import StackRow, maintained_rows

PRESSURE = 10.0  # per cent
OLDEST_PYTHON = (3, 9)  # used if there is no version table


@host_check(
    "PY-001",
    title="no Python 3",
    severity=Severity.FAIL,
    seen="no working Python 3: none was found, or python3 is another program",
    why="ipexctl creates the environment with a Python that is already on the host.",
)
def no_python(facts: Facts) -> Evidence | None:
    if facts.pythons:
        return None
    found = [f"{path} does not run: {words}" for path, words in facts.tried]
    return Evidence("; ".join(found) or f"not in {_LOOKED}", fix=install_python_fix(facts))


_LOOKED = "PATH, /usr/bin, /usr/local/bin, /opt/*/bin, ~/.pyenv or conda"


@cluster_check(
    "PY-002",
    title="no Python with PyTorch packages",
    severity=(Severity.FAIL, Severity.WARN),
    seen="every Python on the host is too old or too new for stock PyTorch (warn: those of the "
    "newest usable version lack _ssl, _bz2 or _sqlite3)",
    why="PyTorch is available only for certain versions of Python.",
)
def unusable_python(cluster: CheckedHosts) -> list[Evidence]:
    wanted = pythons_of(cluster.rows)
    return [*_incomplete_pythons(cluster, wanted)] + [
        Evidence(
            f"found {', '.join(map(_python_with_version, _newest_pythons(facts)))};"
            f" {_dotted_version(min(wanted))} to {_dotted_version(max(wanted))} have packages",
            host=facts.host,
            fix=fitting_python_fix(facts, wanted),
        )
        for facts in cluster.hosts
        if facts.pythons and not any(p.version[:2] in wanted for p in facts.pythons)
    ]


def _incomplete_pythons(
    cluster: CheckedHosts, wanted: Collection[tuple[int, ...]]
) -> Iterator[Evidence]:
    why = "torch, datasets or pip import these modules, and fail: No module named '_bz2'."
    title = "Python was built without modules that PyTorch or its packages need"
    for facts in cluster.hosts:
        fit = [p for p in facts.pythons if p.version[:2] in wanted]
        newest = [p for p in fit if p.version[:2] == max(p.version[:2] for p in fit)]
        if newest and all(p.lacks for p in newest):
            text = ", ".join(
                f"{_python_with_version(p)} lacks {', '.join(p.lacks)}" for p in newest
            )
            fix, host = fitting_python_fix(facts, wanted), facts.host
            yield Evidence(text, fix, severity=Severity.WARN, title=title, why=why, host=host)


def pythons_of(rows: Sequence[StackRow]) -> frozenset[tuple[int, ...]]:
    """Return the Python versions of the rows without IPEX; rows with IPEX are discontinued."""
    known = {minor for row in maintained_rows(rows) for minor in row.pythons}
    return frozenset(known or ((3, minor) for minor in range(OLDEST_PYTHON[1], 30)))


@cluster_check(
    "LOAD-001",
    title="other programs use the CPUs",
    severity=Severity.WARN,
    seen="the load average of the last minute is at least half the number of CPUs, and other "
    "programs are busy now",
    why="Ranks share their cores with these programs, and all hosts wait for this one in each "
    "step. ipexctl's own processes are not counted.",
    fix=do(
        "see whose they are: ",
        command("ps -eo pcpu,user,pid,comm --sort=-pcpu", pipe="head"),
        "   and end them, wait, or leave this host out",
    ),
)
def busy(cluster: CheckedHosts) -> list[Evidence]:
    return [
        Evidence(_describe_load(f.condition.load, len(f.cpu.cpus)), host=f.host)
        for f in _hosts_on_own_machine(cluster)
        if _is_loaded(f) and _cpus_in_use(f) >= len(f.cpu.cpus) / 4
    ]


@cluster_check(
    "LOAD-002",
    title="programs are stuck waiting for a disk or a file server",
    severity=Severity.WARN,
    seen="the load average of the last minute is at least half the number of CPUs, mostly from "
    "processes in state D",
    why="A file server that does not respond, or a failing disk: ranks that use it hang in the "
    "same way and cannot even be killed.",
    fix=do(
        "see what they wait for: ",
        command("ps -eo state,wchan:24,user,pid,comm", pipe="grep ^D"),
        "   and ",
        sudo("dmesg -T", "--level=err,warn"),
    ),
)
def stuck(cluster: CheckedHosts) -> list[Evidence]:
    return [
        Evidence(
            f"{load.blocked} processes wait, load {load.average[0]:g} on {len(f.cpu.cpus)} CPUs",
            host=f.host,
        )
        for f in _hosts_on_own_machine(cluster)
        if _is_loaded(f)
        and (load := f.condition.load).blocked
        and load.blocked >= load.average[0] / 2
    ]


@host_check(
    "LOAD-003",
    title="programs stall because memory is short",
    severity=Severity.WARN,
    seen="PSI: for a tenth of the last 10 s everything waited for memory (/proc/pressure/memory)",
    why="The kernel constantly drops and reloads pages: ranks become extremely slow, and are "
    "eventually killed.",
    fix=do("see who uses it: ", command("ps -eo rss,user,comm --sort=-rss", pipe="head")),
)
def memory_pressure(facts: Facts) -> Evidence | None:
    share = facts.condition.load.memory_pressure
    if share is None or share < PRESSURE:
        return None
    return Evidence(f"everything waited for memory in {share:.0f} % of the last 10 s")


@host_check(
    "LOAD-004",
    title="another run uses these cores",
    severity=Severity.WARN,
    seen="an ipexctl run, by this or another account, on CPUs that this account may use",
    why="Ranks of two runs take turns on a core, and each run waits for its slowest rank.",
    fix=do("see it: ", ipexctl_command("ps"), "   and wait until it ends, or use other hosts"),
)
def other_runs(facts: Facts) -> list[Evidence]:
    found = [run for run in facts.condition.load.runs if run.meets(of.usable_cpus(facts))]
    return [Evidence(run.use_of_cores) for run in found]


def _hosts_on_own_machine(cluster: CheckedHosts) -> list[Facts]:
    """Return hosts that share no machine with others: querying those would add to its load."""
    machines = [f.boot_id for f in cluster.hosts]
    return [f for f in cluster.hosts if not f.boot_id or machines.count(f.boot_id) == 1]


def _is_loaded(facts: Facts) -> bool:
    """Decide whether other work takes half of our CPUs, assuming it uses all others first."""
    average, online = facts.condition.load.average, len(facts.cpu.cpus)
    ours = len(of.usable_cpus(facts) or ())
    return bool(average and ours) and average[0] >= max(1.0, online - ours + ours / 2)


def _cpus_in_use(facts: Facts) -> float:
    """Return the number of busy CPUs, estimated from the load average if it was not measured."""
    load = facts.condition.load
    return load.busy if load.busy is not None else load.average[0] - (load.blocked or 0)


def _describe_load(load: Load, cpus: int) -> str:
    text = f"load {load.average[0]:g} on {cpus} CPUs (15 min: {load.average[-1]:g})"
    if load.busy is not None:
        text += f"; other programs use {load.busy:g} CPUs now"
    if load.top:
        text += ": " + ", ".join(f"{name} {used:g}" for name, used in load.top)
    if load.cpu_pressure:
        text += f"; some waited for a CPU in {load.cpu_pressure:.0f} % of the last 10 s"
    return text


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
    found = []
    for facts in cluster.hosts:
        version = _glibc_version(facts)
        rows = maintained_rows(cluster.rows)
        served = [row for row in rows if version and row.glibc <= version]
        if version is None or len(served) == len(rows):
            continue
        worse = Severity.NOTE if served else Severity.FAIL
        have = f"packages for {', '.join(r.name for r in served[:3])}" if served else "no packages"
        found.append(Evidence(f"{facts.libc}: {have}", host=facts.host, severity=worse))
    return found


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
    worse = Severity.WARN if len(cluster.hosts) > 1 else Severity.NOTE
    hosts = [f for f in cluster.hosts if "microsoft" in f.kernel.lower()]
    return [Evidence(f.kernel, host=f.host, severity=worse) for f in hosts]


@host_check(
    "SEC-001",
    title="training traffic would use a public address",
    severity=(Severity.WARN, Severity.NOTE),
    seen="the other hosts reach it at a public address (note: for IPv6, where nearly all are "
    "public)",
    why="gloo and MPI neither authenticate nor encrypt: anyone who reaches their ports can read "
    "gradients or break the run.",
    fix="use the hosts' private addresses, or allow these ports only between the hosts (security "
    "group, firewall)",
)
def public_address(facts: Facts) -> Evidence | None:
    address = of.peer_address(facts)
    if not of.is_public(address):
        return None
    return Evidence(address, severity=Severity.NOTE if ":" in address else Severity.WARN)


def _needs_linger(facts: Facts) -> bool:
    """Decide whether logind may clean up after the user: a regular one, without lingering."""
    system = facts.condition.system
    return bool(system.session) and (facts.uid or 0) >= 1000 and not system.linger


def _enable_linger_fix(facts: Facts) -> Fix:
    if not facts.user:
        return do(Shell("sudo loginctl enable-linger $USER", needs_root=True))
    return do(scripted_sudo("loginctl enable-linger", facts.user))


def _glibc_version(facts: Facts) -> tuple[int, int] | None:
    found = re.fullmatch(r"glibc (\d+)\.(\d+).*", facts.libc)
    return (int(found[1]), int(found[2])) if found else None


def _newest_pythons(facts: Facts) -> list[Python]:
    return sorted(facts.pythons, key=lambda python: python.version)[-4:]


def _python_with_version(python: Python) -> str:
    return f"{python.path} ({_dotted_version(python.version)})"


def _dotted_version(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


CARRIED = do(
    ipexctl_command("install", "--python-from", "FOLDER"),
    "   # copies a CPython to the hosts; docs/install.md",
)
# Patterns of distribution names -> the Python versions they package, the preferred one first.
_OWN = (
    (r"Debian .*\b10\b", (7,)),
    (r"Debian .*\b11\b", (9,)),
    (r"Debian .*\b12\b", (11,)),
    (r"Debian .*\b13\b", (13,)),
    (r"Ubuntu 18\.04", (6,)),
    (r"Ubuntu 20\.04", (8,)),
    (r"Ubuntu 22\.04", (10,)),
    (r"Ubuntu 24\.04", (12,)),
    (r"(Red Hat|Rocky|AlmaLinux|CentOS|Oracle)\D* [89]\b", (11, 12)),
    (r"Amazon Linux 2023", (11,)),
    (r"Fedora", (11, 12)),
    (r"(SUSE|openSUSE)\D* 15\b", (11,)),
)


def install_python_fix(facts: Facts) -> Fix:
    """Return the command that installs or repairs the distribution's own Python if none runs."""
    broken = any(re.match("/(usr/)?bin/", path) for path in dict(facts.tried))
    if not broken:
        return install_command(facts, debian="python3 python3-venv", rhel="python3", suse="python3")
    parts = [
        f"3.{minor}-{part}"
        for minor in _distribution_minors(facts)[:1]
        for part in ("minimal", "stdlib")
    ]
    libraries = [f"libpython{part}" for part in parts]
    debian = " ".join(["python3-minimal", *(f"python{p}" for p in parts[:1]), *libraries])
    return install_command(
        facts, debian=debian, rhel="python3 python3-libs", suse="python3 python3-base", again=True
    )


def _distribution_minors(facts: Facts) -> tuple[int, ...]:
    return next((minors for name, minors in _OWN if re.match(name, facts.os_name)), ())


def fitting_python_fix(facts: Facts, wanted: Collection[tuple[int, ...]]) -> Fix:
    """Return a command that installs a `wanted` version, from the distribution if it has one."""
    own = _distribution_minors(facts)
    minor = next((minor for minor in own if (3, minor) in wanted), None)
    if minor is None:
        return CARRIED
    return install_command(
        facts, debian="python3 python3-venv", rhel=f"python3.{minor}", suse=f"python3{minor}"
    )
