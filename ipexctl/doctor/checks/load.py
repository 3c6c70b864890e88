"""Load: other programs that use the CPUs, the disks or the memory of a host."""

from __future__ import annotations

from ipexctl.doctor.checks.registry import Evidence, cluster_check, host_check
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.finding import Severity, command, do, sudo
from ipexctl.facts import host_facts as of
from ipexctl.facts.facts import Facts
from ipexctl.facts.load_facts import Load


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
        Evidence(_describe_load(facts.condition.load, len(facts.cpu.cpus)), host=facts.host)
        for facts in _hosts_on_own_machine(cluster)
        if _is_loaded(facts) and _cpus_in_use(facts) >= len(facts.cpu.cpus) / 4
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


PRESSURE = 10.0  # per cent


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


def _hosts_on_own_machine(cluster: CheckedHosts) -> list[Facts]:
    """Return hosts that share no machine with others: querying those would add to its load."""
    machines = [host.boot_id for host in cluster.hosts]
    return [host for host in cluster.hosts if not host.boot_id or machines.count(host.boot_id) == 1]


def _is_loaded(facts: Facts) -> bool:
    """Decide whether other work takes half of our CPUs, assuming it uses all others first."""
    average, online = facts.condition.load.average, len(facts.cpu.cpus)
    own_cpus = len(of.usable_cpus(facts) or ())
    return bool(average and own_cpus) and average[0] >= max(1.0, online - own_cpus + own_cpus / 2)


def _cpus_in_use(facts: Facts) -> float:
    """Return the number of busy CPUs, estimated from the load average if it was not measured."""
    load = facts.condition.load
    return load.busy if load.busy is not None else load.average[0] - (load.blocked or 0)


def _describe_load(load: Load, cpus: int) -> str:
    text = f"load {load.average[0]:g} on {cpus} CPUs (15 min: {load.average[-1]:g})"
    if load.busy is not None:
        text += f"; other programs use {load.busy:g} CPUs now"
    if load.top:
        text += ": " + ", ".join(f"{name} {amount:g}" for name, amount in load.top)
    if load.cpu_pressure:
        text += f"; some waited for a CPU in {load.cpu_pressure:.0f} % of the last 10 s"
    return text
