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
    by_identity = group_hosts(cluster.hosts, machine_identity)
    groups = [names for names in by_identity.values() if len(names) > 1]
    return Evidence("; ".join(map(fold, groups))) if groups else None


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
    by_boot_id: dict[str, dict[object, list[str]]] = {}
    for facts in cluster.hosts:
        if facts.boot_id and facts.condition.system.netns is not None:
            networks = by_boot_id.setdefault(facts.boot_id, {})
            networks.setdefault(facts.condition.system.netns, []).append(facts.host)
    shared = [nets for nets in by_boot_id.values() if len(nets) > 1]
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
    by_name: dict[str, dict[object, list[str]]] = {}
    for facts in cluster.hosts:
        if facts.net.hostname:
            machines = by_name.setdefault(facts.net.hostname, {})
            machines.setdefault(machine_identity(facts) or facts.host, []).append(facts.host)
    shared = {name: m for name, m in by_name.items() if len(m) > 1}
    text = "; ".join(
        f"{name} on {fold(host for names in machines.values() for host in names)}"
        for name, machines in shared.items()
    )
    return Evidence(text) if shared else None


def machine_identity(facts: Facts) -> tuple[str, int] | None:
    """Return a key: equal for two logins to one machine, different for two containers on it."""
    netns = facts.condition.system.netns
    return (facts.boot_id, netns) if facts.boot_id and netns is not None else None
