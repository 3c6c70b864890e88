"""What should be the same on all hosts."""

from __future__ import annotations

from ipexctl.core import facts as of
from ipexctl.core import isa
from ipexctl.core.checks.cluster import Cluster, groups, told
from ipexctl.core.checks.system import OLDEST_PYTHON
from ipexctl.core.model import Finding, Severity


def same_architecture(cluster: Cluster) -> list[Finding]:
    found = groups(cluster.hosts, lambda f: f.cpu.arch)
    if len(found) < 2:
        return []
    return [
        _differs(
            "UNI-001",
            Severity.FAIL,
            "the hosts' architectures differ",
            told(found),
            "One stack of binary packages cannot serve them, and MPI between them does not work.",
            "train on hosts of one architecture",
        )
    ]


def same_instruction_set(cluster: Cluster) -> list[Finding]:
    found = groups(cluster.hosts, lambda f: isa.level(f.cpu))
    if len(found) < 2:
        return []
    return [
        _differs(
            "UNI-002",
            Severity.WARN,
            "the hosts' instruction sets differ",
            told(found),
            "All hosts wait for the slowest one in each step. In bf16 the gap is widest.",
            "leave the slow ones out, or train in fp32, where they differ least",
        )
    ]


def same_cores(cluster: Cluster) -> list[Finding]:
    found = groups(cluster.hosts, of.cores)
    if len(found) < 2:
        return []
    return [
        _differs(
            "UNI-003",
            Severity.NOTE,
            "the hosts' core counts differ",
            told(found, " cores"),
            "With equal ranks per host all wait for the host with the fewest cores. ipexctl plans "
            "ranks and threads from each host's own cores.",
            "give larger hosts more ranks: slots in the hostfile",
        )
    ]


def common_python(cluster: Cluster) -> list[Finding]:
    """Hosts without any usable Python have a finding of their own."""
    minors = {
        f.host: {p.version[:2] for p in f.pythons if p.version[:2] >= OLDEST_PYTHON}
        for f in cluster.hosts
    }
    usable = {host: found for host, found in minors.items() if found}
    if len(usable) < 2 or set.intersection(*usable.values()):
        return []
    hosts = [f for f in cluster.hosts if f.host in usable]
    text = told(groups(hosts, lambda f: ", ".join(f"{a}.{b}" for a, b in sorted(usable[f.host]))))
    return [
        _differs(
            "UNI-004",
            Severity.WARN,
            "no Python version is on all hosts",
            text,
            "Ranks exchange pickled objects and compiled packages of one Python version.",
            "install the same minor version on all hosts",
        )
    ]


def same_libc(cluster: Cluster) -> list[Finding]:
    found = groups(cluster.hosts, lambda f: f.libc)
    if len(found) < 2:
        return []
    mixed = len({str(name).split()[0] for name in found}) > 1
    return [
        _differs(
            "UNI-005",
            Severity.WARN if mixed else Severity.NOTE,
            "the hosts' C libraries differ",
            told(found),
            "Packages are chosen for the oldest of them.",
            "nothing to do, unless a package asks for a newer one",
        )
    ]


def _differs(
    number: str, severity: Severity, title: str, evidence: str, why: str, fix: str
) -> Finding:
    return Finding(number, severity, "", title, evidence, why, fix)
