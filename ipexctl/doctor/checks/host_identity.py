"""Checks that hosts are separate machines, have names of their own, and agree on the time."""

from __future__ import annotations

from ipexctl.doctor.checks.registry import Evidence, cluster_check
from ipexctl.doctor.report.cluster import CheckedHosts, group_hosts
from ipexctl.doctor.report.finding import Severity, do, scripted_sudo, sudo
from ipexctl.facts.facts import Facts
from ipexctl.facts.measurements import median
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


SKEW = 2.0


@cluster_check(
    "CLOCK-001",
    title="the clock is off",
    severity=Severity.WARN,
    seen="the clock is off by more than 2 s, after allowing for measurement error",
    why="Certificates look expired or not yet valid, logs of different hosts do not line up, "
    "and tools that compare file times rebuild too much or too little.",
    fix=do(scripted_sudo("timedatectl set-ntp true"), "   (or start chronyd)"),
)
def clocks(cluster: CheckedHosts) -> list[Evidence]:
    """Compare each clock with the other hosts' clocks; one or two hosts with the controller's."""
    known = [(f.host, f.clock) for f in cluster.hosts if f.clock]
    if not known:
        return []
    alone = len(known) < 3
    reference = 0.0 if alone else median(c.offset for _, c in known)
    doubt = 0.0 if alone else median(c.uncertainty for _, c in known)
    than = "this machine" if alone else "the other hosts"
    found = []
    for host, clock in known:
        skew = clock.offset - reference
        if abs(skew) - clock.uncertainty - doubt > SKEW:
            side = "ahead of" if skew > 0 else "behind"
            doubtful = max(clock.uncertainty, 0.001)
            found.append(
                Evidence(f"{_format_skew(skew)} {side} {than} (±{doubtful:.3f} s)", host=host)
            )
    return found


def _format_skew(skew: float) -> str:
    skew = abs(skew)
    if skew < 120:
        return f"{skew:.1f} s"
    return f"{skew / 60:.0f} min" if skew < 7200 else f"{skew / 3600:.1f} h"
