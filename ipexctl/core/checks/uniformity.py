"""What should be the same on all hosts."""

from __future__ import annotations

from collections.abc import Hashable

from ipexctl.core import facts as of
from ipexctl.core import isa
from ipexctl.core.checks.cluster import Cluster, groups, told
from ipexctl.core.checks.registry import Sight, cluster_check
from ipexctl.core.checks.system import OLDEST_PYTHON
from ipexctl.core.model import Severity


@cluster_check(
    "UNI-001",
    title="the hosts' architectures differ",
    severity=Severity.FAIL,
    seen="architectures differ",
    why="One stack of binary packages cannot serve them, and MPI between them does not work.",
    fix="train on hosts of one architecture",
)
def same_architecture(cluster: Cluster) -> Sight | None:
    return _differs(groups(cluster.hosts, lambda f: f.cpu.arch))


@cluster_check(
    "UNI-002",
    title="the hosts' instruction sets differ",
    severity=Severity.WARN,
    seen="instruction set levels differ",
    why="All hosts wait for the slowest one in each step. In bf16 the gap is widest.",
    fix="leave the slow ones out, or train in fp32, where they differ least",
)
def same_instruction_set(cluster: Cluster) -> Sight | None:
    return _differs(groups(cluster.hosts, lambda f: isa.level(f.cpu)))


@cluster_check(
    "UNI-003",
    title="the hosts' core counts differ",
    severity=Severity.NOTE,
    seen="core counts differ",
    why="With equal ranks per host all wait for the host with the fewest cores. ipexctl plans "
    "ranks and threads from each host's own cores.",
    fix="give larger hosts more ranks: slots in the hostfile",
)
def same_cores(cluster: Cluster) -> Sight | None:
    return _differs(groups(cluster.hosts, of.cores), " cores")


@cluster_check(
    "UNI-004",
    title="no Python version is on all hosts",
    severity=Severity.WARN,
    seen="no Python minor version is on all hosts",
    why="Ranks exchange pickled objects and compiled packages of one Python version.",
    fix="install the same minor version on all hosts",
)
def common_python(cluster: Cluster) -> Sight | None:
    """Hosts without any usable Python have a finding of their own."""
    minors = {
        f.host: {p.version[:2] for p in f.pythons if p.version[:2] >= OLDEST_PYTHON}
        for f in cluster.hosts
    }
    usable = {host: found for host, found in minors.items() if found}
    if len(usable) < 2 or set.intersection(*usable.values()):
        return None
    hosts = [f for f in cluster.hosts if f.host in usable]
    return Sight(
        told(groups(hosts, lambda f: ", ".join(f"{a}.{b}" for a, b in sorted(usable[f.host]))))
    )


@cluster_check(
    "UNI-005",
    title="the hosts' C libraries differ",
    severity=(Severity.NOTE, Severity.WARN),
    seen="C libraries differ: note for versions, warn for glibc beside musl",
    why="Packages are chosen for the oldest of them.",
    fix="nothing to do, unless a package asks for a newer one",
)
def same_libc(cluster: Cluster) -> Sight | None:
    found = groups(cluster.hosts, lambda f: f.libc)
    mixed = len({str(name).split()[0] for name in found}) > 1
    return _differs(found, severity=Severity.WARN if mixed else None)


def _differs(
    found: dict[Hashable, list[str]], unit: str = "", severity: Severity | None = None
) -> Sight | None:
    return Sight(told(found, unit), severity=severity) if len(found) > 1 else None
