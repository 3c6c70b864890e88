"""NUMA: how memory and cores belong together, and where that is broken."""

from __future__ import annotations

from ipexctl.doctor.checks.memory import SEE_DIMMS
from ipexctl.doctor.checks.registry import Sight, host_check
from ipexctl.doctor.report.finding import Severity
from ipexctl.doctor.report.suggested_fix import do
from ipexctl.facts.facts import Facts, Node


@host_check(
    "TOPO-005",
    title="several sockets, but one NUMA node",
    severity=Severity.WARN,
    seen="a bare-metal host with two or more sockets shows one NUMA node",
    why="Memory is interleaved across the sockets, so half of all accesses are remote, and ranks "
    "cannot be placed near their memory.",
    fix="disable node interleaving in the firmware, and remove numa=off from the kernel command "
    "line",
)
def hidden_numa(facts: Facts) -> Sight | None:
    """A virtual machine has the sockets that somebody typed; before AVX2 many had one bus."""
    sockets = {c.socket for c in facts.cpu.cpus if c.socket is not None}
    virtual = "hypervisor" in facts.cpu.flags or "avx2" not in facts.cpu.flags
    if virtual or len(sockets) < 2 or len(facts.nodes) != 1:
        return None
    return Sight(f"{len(sockets)} sockets, 1 node")


@host_check(
    "TOPO-006",
    title="a NUMA node has CPUs but no memory",
    severity=Severity.WARN,
    seen="a NUMA node with CPUs has no memory",
    why="All memory of its ranks is remote: half the bandwidth or less.",
    fix=do("install DIMMs for every socket (", SEE_DIMMS, " shows which slots are empty)"),
)
def no_memory(facts: Facts) -> Sight | None:
    nodes = [n for n in _with_cpus(facts) if n.mem_total == 0]
    return Sight(f"nodes {_ids(nodes)}") if nodes else None


def _with_cpus(facts: Facts) -> list[Node]:
    return [n for n in facts.nodes if n.cpus]


def _ids(nodes: list[Node]) -> str:
    return ", ".join(str(n.id) for n in nodes)
