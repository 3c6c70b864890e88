"""Values that should be the same on all hosts, as a table, and what a difference means."""

from __future__ import annotations

from ipexctl.base.sizes import binary_size
from ipexctl.doctor.checks.pythons import pythons_of
from ipexctl.doctor.checks.registry import Evidence, cluster_check, find_difference
from ipexctl.doctor.checks.storage import network_fs
from ipexctl.doctor.report.cluster import CheckedHosts, group_hosts, hosts_by_value
from ipexctl.doctor.report.finding import Severity
from ipexctl.facts import host_facts as of
from ipexctl.facts import isa, usable_cores
from ipexctl.facts.facts import Facts

_FAIL, _WARN, _NOTE = Severity.FAIL, Severity.WARN, Severity.NOTE


def _memory_ratio(cluster: CheckedHosts) -> float:
    """Return how many times the memory of the smallest host the largest one has."""
    sizes = [n for n in map(of.usable_memory, cluster.hosts) if n]
    return max(sizes) / min(sizes) if sizes else 1.0


def _memory_text(facts: Facts) -> str | None:
    total = of.usable_memory(facts)
    return binary_size(total) if total else None


def _nodes(facts: Facts) -> int | None:
    return usable_cores.numa_nodes(facts.cpu) if facts.cpu.cpus else None


SAME = (
    cluster_check(
        "UNI-001",
        title="the hosts' architectures differ",
        severity=_FAIL,
        seen="the hosts' architectures differ",
        why="One stack of binary packages cannot serve them all, and MPI does not work between "
        "them.",
        fix="train on hosts of one architecture",
    )(find_difference(lambda f: f.cpu.arch)),
    cluster_check(
        "UNI-002",
        title="the hosts' instruction sets differ",
        severity=_WARN,
        seen="the hosts' instruction sets differ",
        why="In each step, all hosts wait for the slowest one. The gap is largest in bf16.",
        fix="leave out the slower hosts, or train in fp32, where the gap is smallest",
    )(find_difference(lambda f: isa.cpu_level(f.cpu))),
    cluster_check(
        "UNI-003",
        title="the hosts' core counts differ",
        severity=_NOTE,
        seen="the hosts' core counts differ",
        why="With equal ranks per host, all hosts wait for the one with the fewest cores. "
        "ipexctl plans ranks and threads from each host's own cores.",
        fix="give larger hosts more ranks: slots in the hostfile",
    )(find_difference(lambda f: of.count_usable_cores(f), unit=" cores")),
    cluster_check(
        "UNI-007",
        title="the hosts' microcode differs",
        severity=_NOTE,
        seen="identical CPUs with different microcode",
        why="Microcode affects speed (mitigations, turbo tables), so identical hosts are not "
        "equally fast.",
        fix="update the firmware or the microcode package on all hosts, and reboot",
    )(
        find_difference(
            lambda f: f.cpu.microcode, silent=lambda c: len({f.cpu.model_name for f in c.hosts}) > 1
        )
    ),
    cluster_check(
        "UNI-008",
        title="the hosts' kernels differ",
        severity=_NOTE,
        seen="the hosts' kernels differ",
        why="It works, but if one host is slower for no other apparent reason, this may be the "
        "cause.",
        fix="update and reboot them together",
    )(find_difference(lambda f: f.kernel)),
    cluster_check(
        "UNI-010",
        title="the hosts have different amounts of memory",
        severity=(_NOTE, _WARN),
        seen="the largest has over 10 % more memory than the smallest (warn: more than twice "
        "as much); cgroup limits count",
        why="With equal ranks on all hosts, the smallest runs out of memory first: its rank is "
        "killed, and the run fails.",
        fix="give the smaller hosts fewer ranks (slots in the hostfile), or leave them out",
    )(
        find_difference(
            _memory_text,
            silent=lambda cluster: _memory_ratio(cluster) <= 1.1,
            level=lambda cluster: _WARN if _memory_ratio(cluster) > 2 else _NOTE,
        )
    ),
    cluster_check(
        "UNI-012",
        title="the hosts have different numbers of NUMA nodes",
        severity=_NOTE,
        seen="the numbers of NUMA nodes with CPUs differ",
        why="`ipexctl run` starts one rank per node, so these hosts get different numbers of "
        "ranks, and some ranks have fewer cores than others.",
        fix="set sub-NUMA clustering (SNC, NPS) identically in the firmware, or set -ppn",
    )(find_difference(_nodes, unit=" nodes")),
)


@cluster_check(
    "UNI-004",
    title="the hosts have no Python version in common",
    severity=_WARN,
    seen="no Python minor version is installed on all hosts",
    why="Pickled objects exchanged by ranks, and compiled packages, need the same Python version.",
    fix="install the same minor version on all hosts",
)
def common_python(cluster: CheckedHosts) -> Evidence | None:
    """Report hosts without a common Python version; those without a usable one have a finding."""
    wanted = pythons_of(cluster.rows)
    minors = {
        f.host: {p.version[:2] for p in f.pythons if p.version[:2] in wanted} for f in cluster.hosts
    }
    usable = {host: versions for host, versions in minors.items() if versions}
    if len(usable) < 2 or set.intersection(*usable.values()):
        return None
    hosts = [f for f in cluster.hosts if f.host in usable]
    return Evidence(
        hosts_by_value(
            group_hosts(hosts, lambda f: ", ".join(f"{a}.{b}" for a, b in sorted(usable[f.host])))
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
def same_user(cluster: CheckedHosts) -> Evidence | None:
    shared = [facts for facts in cluster.hosts if facts.home_disk and network_fs(facts.home_disk)]
    ids = group_hosts(shared, lambda facts: facts.uid)
    if len(ids) > 1:
        return Evidence("user ids: " + hosts_by_value(ids), severity=_WARN)
    names = group_hosts(cluster.hosts, lambda facts: facts.user)
    return Evidence(hosts_by_value(names)) if len(names) > 1 else None
