"""What should be the same on all hosts: a table of values, and what it means where they differ."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ipexctl.base.sizes import size
from ipexctl.doctor.checks.cpu_frequency import FASTEST
from ipexctl.doctor.checks.memory import HUGE_PAGES
from ipexctl.doctor.checks.registry import Check, Sight, cluster_check
from ipexctl.doctor.checks.storage import network_fs
from ipexctl.doctor.checks.system import pythons_of
from ipexctl.doctor.report.cluster import Cluster, groups, hosts_by_value
from ipexctl.doctor.report.finding import Fix, Severity, do
from ipexctl.facts import host_facts as of
from ipexctl.facts import isa, usable_cores
from ipexctl.facts.facts import Facts
from ipexctl.quick_dataclass import dataclass

_FAIL, _WARN, _NOTE = Severity.FAIL, Severity.WARN, Severity.NOTE


def _no(cluster: Cluster) -> bool:
    return False


@dataclass(frozen=True)
class SameValue:
    """A value that hosts should share. Those whose value is unknown ("", None) take no part.

    `silent`: the difference does no harm, or another check reports its cause. `grave`: it is worth
    a warning.
    """

    id: str
    title: str
    value: Callable[[Facts], Hashable]
    why: str
    fix: Fix | str
    seen: str = ""  # that they differ
    severity: Severity = _NOTE
    unit: str = ""
    silent: Callable[[Cluster], bool] = _no
    grave: Callable[[Cluster], bool] = _no

    def check(self) -> Check:
        levels = (self.severity,) if self.grave is _no else (self.severity, _WARN)
        declare = cluster_check(
            self.id,
            title=self.title,
            severity=levels,
            seen=self.seen or self.title,
            why=self.why,
            fix=self.fix,
        )
        return declare(self._look)

    def _look(self, cluster: Cluster) -> Sight | None:
        found = groups(cluster.hosts, self.value)
        if len(found) < 2 or self.silent(cluster):
            return None
        severity = _WARN if self.grave(cluster) else self.severity
        return Sight(hosts_by_value(found, self.unit), severity=severity)


def _several(value: Callable[[Facts], Hashable]) -> Callable[[Cluster], bool]:
    return lambda cluster: len(set(map(value, cluster.hosts))) > 1


def _memory_by(factor: float) -> Callable[[Cluster], bool]:
    """Whether the largest host has more than `factor` times the memory of the smallest."""

    def differs(cluster: Cluster) -> bool:
        known = [n for n in map(of.memory, cluster.hosts) if n]
        return bool(known) and max(known) > factor * min(known)

    return differs


def _memory(facts: Facts) -> str | None:
    total = of.memory(facts)
    return size(total) if total else None


def _nodes(facts: Facts) -> int | None:
    return usable_cores.numa_nodes(facts.cpu) if facts.cpu.cpus else None


_about_same_memory, _half_the_memory = _memory_by(1.1), _memory_by(2)

SAME = tuple(
    row.check()
    for row in (
        SameValue(
            "UNI-001",
            "the hosts' architectures differ",
            lambda f: f.cpu.arch,
            severity=_FAIL,
            why="One stack of binary packages cannot serve them all, and MPI does not work between "
            "them.",
            fix="train on hosts of one architecture",
        ),
        SameValue(
            "UNI-002",
            "the hosts' instruction sets differ",
            lambda f: isa.level(f.cpu),
            severity=_WARN,
            why="In each step, all hosts wait for the slowest one. The gap is largest in bf16.",
            fix="leave out the slower hosts, or train in fp32, where the gap is smallest",
        ),
        SameValue(
            "UNI-003",
            "the hosts' core counts differ",
            of.cores,
            unit=" cores",
            why="With equal ranks per host, all hosts wait for the one with the fewest cores. "
            "ipexctl plans ranks and threads from each host's own cores.",
            fix="give larger hosts more ranks: slots in the hostfile",
        ),
        SameValue(
            "UNI-007",
            "the hosts' microcode differs",
            lambda f: f.cpu.microcode,
            silent=_several(lambda f: f.cpu.model_name),
            seen="identical CPUs with different microcode",
            why="Microcode affects speed (mitigations, turbo tables), so identical hosts are not "
            "equally fast.",
            fix="update the firmware or the microcode package on all hosts, and reboot",
        ),
        SameValue(
            "UNI-008",
            "the hosts' kernels differ",
            lambda f: f.kernel,
            why="It works, but if one host is slower for no other apparent reason, this may be the "
            "cause.",
            fix="update and reboot them together",
        ),
        SameValue(
            "UNI-009",
            "the hosts' governors differ",
            lambda f: ", ".join(f.condition.power.governors),
            why="A host that saves energy is slower, and the others wait for it.",
            fix=do(FASTEST, "   on all"),
        ),
        SameValue(
            "UNI-010",
            "the hosts have different amounts of memory",
            _memory,
            silent=lambda cluster: not _about_same_memory(cluster),
            grave=_half_the_memory,
            seen="the largest has over 10 % more memory than the smallest (warn: more than twice "
            "as much); cgroup limits count",
            why="With equal ranks on all hosts, the smallest runs out of memory first: its rank is "
            "killed, and the run fails.",
            fix="give the smaller hosts fewer ranks (slots in the hostfile), or leave them out",
        ),
        SameValue(
            "UNI-012",
            "the hosts have different numbers of NUMA nodes",
            _nodes,
            unit=" nodes",
            seen="the numbers of NUMA nodes with CPUs differ",
            why="`ipexctl run` starts one rank per node, so these hosts get different numbers of "
            "ranks, and some ranks have fewer cores than others.",
            fix="set sub-NUMA clustering (SNC, NPS) identically in the firmware, or set -ppn",
        ),
        SameValue(
            "UNI-014",
            "transparent huge pages are set differently",
            lambda f: f.condition.kernel.thp,
            why="Hosts with huge pages are slightly faster than those without.",
            fix=do(HUGE_PAGES, "   on all"),
        ),
    )
)


@cluster_check(
    "UNI-004",
    title="the hosts have no Python version in common",
    severity=_WARN,
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
    "UNI-013",
    title="your user name differs between hosts",
    severity=(_NOTE, _WARN),
    seen="user names differ (warn: user ids differ, and the homes are shared)",
    why="On a shared home, files that one host writes cannot be changed on another.",
    fix="use the same user name and id everywhere: a directory service, or usermod -u",
)
def same_user(cluster: Cluster) -> Sight | None:
    shared = [f for f in cluster.hosts if f.home_disk and network_fs(f.home_disk)]
    ids = groups(shared, lambda f: f.uid)
    if len(ids) > 1:
        return Sight("user ids: " + hosts_by_value(ids), severity=_WARN)
    names = groups(cluster.hosts, lambda f: f.user)
    return Sight(hosts_by_value(names)) if len(names) > 1 else None
