"""Duplicate hosts: one machine that is listed twice, and hostnames that two machines have."""

from __future__ import annotations

from ipexctl.doctor.checks.registry import Evidence, cluster_check
from ipexctl.doctor.report.cluster import CheckedHosts, group_hosts
from ipexctl.doctor.report.finding import Severity, do, sudo
from ipexctl.facts.facts import Facts
from ipexctl.inventory.hostfile_text import fold


@cluster_check(
    "HOST-001",
    title="one machine is listed twice",
    severity=Severity.WARN,
    seen="two names lead to the same machine and the same network",
    why="It gets the ranks of two hosts, and all other hosts wait for them.",
    fix="keep only one of the names in the hostfile",
)
def twice(cluster: CheckedHosts) -> Evidence | None:
    found = group_hosts(cluster.hosts, machine_identity)
    same = [names for names in found.values() if len(names) > 1]
    return Evidence("; ".join(map(fold, same))) if same else None


@cluster_check(
    "HOST-002",
    title="several hosts are the same machine",
    severity=Severity.NOTE,
    seen="hosts on one machine have separate networks (containers, network namespaces)",
    why="They share its cores and memory bandwidth: adding more of them does not make training "
    "faster.",
    fix="nothing to do, if that is what you want (a practice cluster)",
)
def one_machine(cluster: CheckedHosts) -> Evidence | None:
    found: dict[str, dict[object, list[str]]] = {}
    for facts in cluster.hosts:
        if facts.boot_id and facts.condition.system.netns is not None:
            networks = found.setdefault(facts.boot_id, {})
            networks.setdefault(facts.condition.system.netns, []).append(facts.host)
    shared = [nets for nets in found.values() if len(nets) > 1]
    if not shared:
        return None
    return Evidence("; ".join(fold(n for names in nets.values() for n in names) for nets in shared))


@cluster_check(
    "HOST-003",
    title="two hosts have the same hostname",
    severity=Severity.WARN,
    seen="two machines report the same hostname",
    why="MPI and gloo use the hostname to decide which ranks share a machine: ranks of two "
    "machines then look for each other in one /dev/shm, and hang.",
    fix=do(sudo("hostnamectl set-hostname NAME"), "   with a different name on each"),
)
def same_hostname(cluster: CheckedHosts) -> Evidence | None:
    found: dict[str, dict[object, list[str]]] = {}
    for facts in cluster.hosts:
        if facts.net.hostname:
            machines = found.setdefault(facts.net.hostname, {})
            machines.setdefault(machine_identity(facts) or facts.host, []).append(facts.host)
    same = {name: m for name, m in found.items() if len(m) > 1}
    text = "; ".join(
        f"{name} on {fold(h for names in machines.values() for h in names)}"
        for name, machines in same.items()
    )
    return Evidence(text) if same else None


def machine_identity(facts: Facts) -> tuple[str, int] | None:
    """Return a key: equal for two logins to one machine, different for two containers on it."""
    netns = facts.condition.system.netns
    return (facts.boot_id, netns) if facts.boot_id and netns is not None else None
