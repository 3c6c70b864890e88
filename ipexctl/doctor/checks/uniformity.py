"""What should be the same on all hosts."""

from __future__ import annotations

from collections.abc import Hashable

from ipexctl.base.sizes import size
from ipexctl.doctor.checks.cpu_frequency import FASTEST
from ipexctl.doctor.checks.memory import HUGE_PAGES
from ipexctl.doctor.checks.registry import Sight, cluster_check
from ipexctl.doctor.checks.storage import network_fs
from ipexctl.doctor.checks.system import pythons_of
from ipexctl.doctor.report.cluster import Cluster, groups, hosts_by_value
from ipexctl.doctor.report.finding import Severity
from ipexctl.doctor.report.suggested_fix import do
from ipexctl.facts import host_facts as of
from ipexctl.facts import isa, processors, usable_cores
from ipexctl.facts.facts import Facts
from ipexctl.inventory.hostfile_text import fold


@cluster_check(
    "UNI-001",
    title="the hosts' architectures differ",
    severity=Severity.FAIL,
    seen="architectures differ",
    why="One stack of binary packages cannot serve them all, and MPI does not work between them.",
    fix="train on hosts of one architecture",
)
def same_architecture(cluster: Cluster) -> Sight | None:
    return _differs(groups(cluster.hosts, lambda f: f.cpu.arch))


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


@cluster_check(
    "UNI-003",
    title="the hosts' core counts differ",
    severity=Severity.NOTE,
    seen="core counts differ",
    why="With equal ranks per host, all hosts wait for the one with the fewest cores. ipexctl "
    "plans ranks and threads from each host's own cores.",
    fix="give larger hosts more ranks: slots in the hostfile",
)
def same_cores(cluster: Cluster) -> Sight | None:
    return _differs(groups(cluster.hosts, of.cores), " cores")


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


@cluster_check(
    "UNI-006",
    title="the hosts' processors differ",
    severity=Severity.NOTE,
    seen="different CPU models with the same instruction set level",
    why="In each step, all hosts wait for the slowest one.",
    fix="nothing to do, or use identical hosts",
)
def same_processor(cluster: Cluster) -> Sight | None:
    """Silent where the levels differ already."""
    if len({isa.level(f.cpu) for f in cluster.hosts}) > 1:
        return None
    return _differs(groups(cluster.hosts, lambda f: f.cpu.model_name))


@cluster_check(
    "UNI-007",
    title="the hosts' microcode differs",
    severity=Severity.NOTE,
    seen="identical CPUs with different microcode",
    why="Microcode affects speed (mitigations, turbo tables), so identical hosts are not "
    "equally fast.",
    fix="update the firmware or the microcode package on all hosts, and reboot",
)
def same_microcode(cluster: Cluster) -> Sight | None:
    if len({f.cpu.model_name for f in cluster.hosts}) > 1:
        return None
    return _differs(groups(cluster.hosts, lambda f: f.cpu.microcode))


@cluster_check(
    "UNI-008",
    title="the hosts' kernels differ",
    severity=Severity.NOTE,
    seen="kernel versions differ",
    why="It works, but if one host is slower for no other apparent reason, this may be the cause.",
    fix="update and reboot them together",
)
def same_kernel(cluster: Cluster) -> Sight | None:
    return _differs(groups(cluster.hosts, lambda f: f.kernel))


@cluster_check(
    "UNI-009",
    title="the hosts' governors differ",
    severity=Severity.NOTE,
    seen="frequency governors differ",
    why="A host that saves energy is slower, and the others wait for it.",
    fix=do(FASTEST, "   on all"),
)
def same_governor(cluster: Cluster) -> Sight | None:
    return _differs(groups(cluster.hosts, lambda f: ", ".join(f.condition.power.governors)))


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


@cluster_check(
    "UNI-011",
    title="SMT is on for some hosts only",
    severity=Severity.NOTE,
    seen="the hosts have different numbers of threads per core",
    why="It works: a rank gets one thread of each core. Hosts with SMT off are sometimes "
    "slightly faster.",
    fix="nothing to do",
)
def same_smt(cluster: Cluster) -> Sight | None:
    return _differs(groups(cluster.hosts, _threads), " threads per core")


@cluster_check(
    "UNI-012",
    title="the hosts have different numbers of NUMA nodes",
    severity=Severity.NOTE,
    seen="the numbers of NUMA nodes with CPUs differ",
    why="`ipexctl run` starts one rank per node, so these hosts get different numbers of ranks, "
    "and some ranks have fewer cores than others.",
    fix="set sub-NUMA clustering (SNC, NPS) identically in the firmware, or set -ppn",
)
def same_nodes(cluster: Cluster) -> Sight | None:
    known = [f for f in cluster.hosts if f.cpu.cpus]
    return _differs(groups(known, lambda f: usable_cores.numa_nodes(f.cpu)), " nodes")


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


@cluster_check(
    "UNI-014",
    title="transparent huge pages are set differently",
    severity=Severity.NOTE,
    seen="transparent_hugepage/enabled differs",
    why="Hosts with huge pages are slightly faster than those without.",
    fix=do(HUGE_PAGES, "   on all"),
)
def same_huge_pages(cluster: Cluster) -> Sight | None:
    return _differs(groups(cluster.hosts, lambda f: f.condition.kernel.thp))


def _threads(facts: Facts) -> int | None:
    cores: dict[int, int] = {}
    for cpu in facts.cpu.cpus:
        if cpu.core is not None:
            cores[cpu.core] = cores.get(cpu.core, 0) + 1
    return max(cores.values(), default=None)


def _differs(
    found: dict[Hashable, list[str]], unit: str = "", severity: Severity | None = None
) -> Sight | None:
    return Sight(hosts_by_value(found, unit), severity=severity) if len(found) > 1 else None
