"""What should be the same on all hosts."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ipexctl.base.sizes import size
from ipexctl.doctor.checks.cpu_frequency import FASTEST
from ipexctl.doctor.checks.memory import HUGE_PAGES
from ipexctl.doctor.checks.registry import Check, Sight, cluster_check
from ipexctl.doctor.checks.storage import network_fs
from ipexctl.doctor.checks.system import pythons_of
from ipexctl.doctor.report.cluster import Cluster, groups, hosts_by_value
from ipexctl.doctor.report.finding import Severity
from ipexctl.doctor.report.suggested_fix import do
from ipexctl.facts import host_facts as of
from ipexctl.facts import isa, processors, usable_cores
from ipexctl.facts.facts import Facts
from ipexctl.inventory.hostfile_text import fold


def differs(
    declaration: cluster_check,
    value: Callable[[Facts], Hashable],
    *,
    unit: str = "",
    silent_where_differs: Callable[[Facts], Hashable] | None = None,
) -> Check:
    """A check for hosts that differ in one value; hosts whose value is unknown take no part.

    `silent_where_differs`: another check reports hosts that differ in this one.
    """

    @declaration
    def check(cluster: Cluster) -> Sight | None:
        if silent_where_differs and len(set(map(silent_where_differs, cluster.hosts))) > 1:
            return None
        return _differs(groups(cluster.hosts, value), unit)

    return check


def _threads(facts: Facts) -> int | None:
    cores: dict[int, int] = {}
    for cpu in facts.cpu.cpus:
        if cpu.core is not None:
            cores[cpu.core] = cores.get(cpu.core, 0) + 1
    return max(cores.values(), default=None)


architecture = differs(
    cluster_check(
        "UNI-001",
        title="the hosts' architectures differ",
        severity=Severity.FAIL,
        seen="architectures differ",
        why="One stack of binary packages cannot serve them all, and MPI does not work between "
        "them.",
        fix="train on hosts of one architecture",
    ),
    lambda f: f.cpu.arch,
)


@cluster_check(
    "UNI-002",
    title="the hosts' instruction sets differ",
    severity=Severity.WARN,
    seen="the instruction set levels differ",
    why="In each step, all hosts wait for the slowest one. The gap is largest in bf16.",
    fix="leave out the slower hosts, or train in fp32, where the gap is smallest",
)
def same_instruction_set(cluster: Cluster) -> Sight | None:
    found = groups(cluster.hosts, lambda f: isa.level(f.cpu))
    hiding = [f.host for f in cluster.hosts if processors.hidden(f.cpu)]
    if len(found) < 2 or not hiding:
        return _differs(found)
    fix = f"first expose what {fold(hiding)} hides (CPU-005)"
    return Sight(hosts_by_value(found), fix=fix)


core_count = differs(
    cluster_check(
        "UNI-003",
        title="the hosts' core counts differ",
        severity=Severity.NOTE,
        seen="core counts differ",
        why="With equal ranks per host, all hosts wait for the one with the fewest cores. ipexctl "
        "plans ranks and threads from each host's own cores.",
        fix="give larger hosts more ranks: slots in the hostfile",
    ),
    of.cores,
    unit=" cores",
)


@cluster_check(
    "UNI-004",
    title="the hosts have no Python version in common",
    severity=Severity.WARN,
    seen="no Python minor version is installed on all hosts",
    why="Pickled objects exchanged by ranks, and compiled packages, need the same Python version.",
    fix="install the same minor version on all hosts",
)
def common_python(cluster: Cluster) -> Sight | None:
    """Hosts without any usable Python have a finding of their own."""
    wanted = pythons_of(cluster.rows)
    minors = {
        f.host: {p.version[:2] for p in f.pythons if p.version[:2] in wanted} for f in cluster.hosts
    }
    usable = {host: found for host, found in minors.items() if found}
    if len(usable) < 2 or set.intersection(*usable.values()):
        return None
    hosts = [f for f in cluster.hosts if f.host in usable]
    return Sight(
        hosts_by_value(
            groups(hosts, lambda f: ", ".join(f"{a}.{b}" for a, b in sorted(usable[f.host])))
        )
    )


@cluster_check(
    "UNI-005",
    title="the hosts' C libraries differ",
    severity=(Severity.NOTE, Severity.WARN),
    seen="C libraries differ: note for different versions, warn for glibc alongside musl",
    why="Packages are chosen for the oldest one.",
    fix="nothing to do, unless a package requires a newer one",
)
def same_libc(cluster: Cluster) -> Sight | None:
    found = groups(cluster.hosts, lambda f: f.libc)
    mixed = len({str(name).split()[0] for name in found}) > 1
    return _differs(found, severity=Severity.WARN if mixed else None)


processor = differs(
    cluster_check(
        "UNI-006",
        title="the hosts' processors differ",
        severity=Severity.NOTE,
        seen="different CPU models with the same instruction set level",
        why="In each step, all hosts wait for the slowest one.",
        fix="nothing to do, or use identical hosts",
    ),
    lambda f: f.cpu.model_name,
    silent_where_differs=lambda f: isa.level(f.cpu),
)


microcode = differs(
    cluster_check(
        "UNI-007",
        title="the hosts' microcode differs",
        severity=Severity.NOTE,
        seen="identical CPUs with different microcode",
        why="Microcode affects speed (mitigations, turbo tables), so identical hosts are not "
        "equally fast.",
        fix="update the firmware or the microcode package on all hosts, and reboot",
    ),
    lambda f: f.cpu.microcode,
    silent_where_differs=lambda f: f.cpu.model_name,
)


kernel = differs(
    cluster_check(
        "UNI-008",
        title="the hosts' kernels differ",
        severity=Severity.NOTE,
        seen="kernel versions differ",
        why="It works, but if one host is slower for no other apparent reason, this may be the "
        "cause.",
        fix="update and reboot them together",
    ),
    lambda f: f.kernel,
)


governor = differs(
    cluster_check(
        "UNI-009",
        title="the hosts' governors differ",
        severity=Severity.NOTE,
        seen="frequency governors differ",
        why="A host that saves energy is slower, and the others wait for it.",
        fix=do(FASTEST, "   on all"),
    ),
    lambda f: ", ".join(f.condition.power.governors),
)


@cluster_check(
    "UNI-010",
    title="the hosts have different amounts of memory",
    severity=(Severity.NOTE, Severity.WARN),
    seen="the largest has over 10 % more memory than the smallest (warn: more than twice as "
    "much); cgroup limits count",
    why="With equal ranks on all hosts, the smallest runs out of memory first: its rank is "
    "killed, and the run fails.",
    fix="give the smaller hosts fewer ranks (slots in the hostfile), or leave them out",
)
def same_memory(cluster: Cluster) -> Sight | None:
    known = [n for n in map(of.memory, cluster.hosts) if n]
    if not known or max(known) <= 1.1 * min(known):
        return None
    found = groups(cluster.hosts, lambda f: size(n) if (n := of.memory(f)) else None)
    return Sight(
        hosts_by_value(found), severity=Severity.WARN if max(known) > 2 * min(known) else None
    )


smt = differs(
    cluster_check(
        "UNI-011",
        title="SMT is on for some hosts only",
        severity=Severity.NOTE,
        seen="the hosts have different numbers of threads per core",
        why="It works: a rank gets one thread of each core. Hosts with SMT off are sometimes "
        "slightly faster.",
        fix="nothing to do",
    ),
    _threads,
    unit=" threads per core",
)


numa_nodes = differs(
    cluster_check(
        "UNI-012",
        title="the hosts have different numbers of NUMA nodes",
        severity=Severity.NOTE,
        seen="the numbers of NUMA nodes with CPUs differ",
        why="`ipexctl run` starts one rank per node, so these hosts get different numbers of "
        "ranks, and some ranks have fewer cores than others.",
        fix="set sub-NUMA clustering (SNC, NPS) identically in the firmware, or set -ppn",
    ),
    lambda f: usable_cores.numa_nodes(f.cpu) if f.cpu.cpus else None,
    unit=" nodes",
)


@cluster_check(
    "UNI-013",
    title="your user name differs between hosts",
    severity=(Severity.NOTE, Severity.WARN),
    seen="user names differ (warn: user ids differ, and the homes are shared)",
    why="On a shared home, files that one host writes cannot be changed on another.",
    fix="use the same user name and id everywhere: a directory service, or usermod -u",
)
def same_user(cluster: Cluster) -> Sight | None:
    shared = [f for f in cluster.hosts if f.home_disk and network_fs(f.home_disk)]
    ids = groups(shared, lambda f: f.uid)
    if len(ids) > 1:
        return Sight("user ids: " + hosts_by_value(ids), severity=Severity.WARN)
    return _differs(groups(cluster.hosts, lambda f: f.user))


huge_pages = differs(
    cluster_check(
        "UNI-014",
        title="transparent huge pages are set differently",
        severity=Severity.NOTE,
        seen="transparent_hugepage/enabled differs",
        why="Hosts with huge pages are slightly faster than those without.",
        fix=do(HUGE_PAGES, "   on all"),
    ),
    lambda f: f.condition.kernel.thp,
)


def _differs(
    found: dict[Hashable, list[str]], unit: str = "", severity: Severity | None = None
) -> Sight | None:
    return Sight(hosts_by_value(found, unit), severity=severity) if len(found) > 1 else None
