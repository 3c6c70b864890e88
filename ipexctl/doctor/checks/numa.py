"""NUMA: how memory and cores belong together, and where that is broken."""

from __future__ import annotations

from ipexctl.base.sizes import size
from ipexctl.doctor.checks.memory import SEE_DIMMS
from ipexctl.doctor.checks.registry import Sight, host_check
from ipexctl.doctor.report.finding import Severity
from ipexctl.doctor.report.suggested_fix import command, do
from ipexctl.facts import host_facts as of
from ipexctl.facts import usable_cores
from ipexctl.facts.facts import Facts, Node
from ipexctl.run.plan.core_map import cpu_list

UNEVEN = 1.5  # two DIMMs of sixteen missing are 1.14, half of the channels are 2


@host_check(
    "TOPO-001",
    title="sub-NUMA clustering",
    severity=Severity.NOTE,
    seen="more NUMA nodes with CPUs than sockets (SNC, NPS)",
    why="Each node has its own memory channels, so one rank per node fits best; `ipexctl run` "
    "does that by default. One rank per socket would use remote memory.",
    fix="nothing to do; by hand: one rank per NUMA node, with numactl --cpunodebind and --membind",
)
def sub_numa(facts: Facts) -> Sight | None:
    sockets = {c.socket for c in facts.cpu.cpus if c.socket is not None}
    nodes = len(_with_cpus(facts))
    if not sockets or nodes <= len(sockets):
        return None
    return Sight(f"{nodes} nodes with CPUs in {_sockets(len(sockets))}")


@host_check(
    "TOPO-002",
    title="NUMA nodes with memory only",
    severity=Severity.NOTE,
    seen="nodes without CPUs: HBM of a Xeon Max in flat mode, or CXL",
    why="They get no rank, and nothing is allocated there unless a process requests it: HBM "
    "stays unused.",
    fix=do(
        "prefer them for a rank: ",
        command("numactl --preferred-many=NODES"),
        "   (",
        command("numactl -H"),
        " shows which are near)",
    ),
)
def memory_only(facts: Facts) -> Sight | None:
    nodes = [n for n in facts.nodes if not n.cpus and n.mem_total]
    if not nodes:
        return None
    total = sum(n.mem_total or 0 for n in nodes)
    return Sight(f"nodes {_ids(nodes)} have {size(total)} and no CPU")


@host_check(
    "TOPO-003",
    title="the NUMA information contradicts itself",
    severity=Severity.WARN,
    seen="one CPU is in two NUMA nodes",
    why="It is unknown which memory is local. ipexctl ignores this information and starts one "
    "rank, whose memory may be remote.",
    fix="update the firmware (its SRAT table is wrong), or set -ppn explicitly",
)
def contradictory(facts: Facts) -> Sight | None:
    if not facts.nodes_contradict:
        return None
    return Sight("a CPU is listed in two nodes of /sys/devices/system/node")


@host_check(
    "TOPO-004",
    title="NUMA nodes of different sizes",
    severity=Severity.NOTE,
    seen="one NUMA node has less than three quarters of the allowed cores of another",
    why="Ranks get equal numbers of cores, so some of them span two nodes.",
    fix="request whole nodes from the scheduler, or set -ppn explicitly",
)
def unequal_nodes(facts: Facts) -> Sight | None:
    nodes = usable_cores.by_node(facts.cpu)
    if not nodes or usable_cores.similar_sizes(nodes):
        return None
    return Sight(f"{', '.join(str(len(cores)) for cores in nodes)} cores")


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


@host_check(
    "TOPO-007",
    title="the NUMA nodes have different amounts of memory",
    severity=Severity.WARN,
    seen=f"the largest node with CPUs has more than {UNEVEN} times the memory of the smallest",
    why="The smaller node uses fewer memory channels, so its rank is slower, or runs out of "
    "memory first.",
    fix=do("compare the DIMMs of the sockets: ", SEE_DIMMS),
)
def uneven_memory(facts: Facts) -> Sight | None:
    sizes = {n.id: n.mem_total for n in _with_cpus(facts) if n.mem_total}
    if len(sizes) < 2 or max(sizes.values()) <= UNEVEN * min(sizes.values()):
        return None
    return Sight(", ".join(f"node {n}: {size(total)}" for n, total in sorted(sizes.items())))


@host_check(
    "TOPO-008",
    title="CPUs without the memory of their NUMA node",
    severity=Severity.WARN,
    seen="the cpuset allows CPUs of a NUMA node, but not its memory (cpuset.mems)",
    why="All memory of a rank on these CPUs is on another node: half the bandwidth or less.",
    fix="allow the memory of the same nodes as the CPUs (docker: --cpuset-mems, cgroup: "
    "cpuset.mems), or CPUs of the nodes whose memory is allowed",
)
def memory_not_ours(facts: Facts) -> Sight | None:
    allowed, usable = facts.mem.mems, of.usable(facts)
    if allowed is None or usable is None:
        return None
    ours = [n for n in _with_cpus(facts) if usable & set(n.cpus)]
    bare = [n for n in ours if n.mem_total and n.id not in allowed]
    if not bare or len(bare) == len(facts.nodes):
        return None
    nodes, its = ("node", "its") if len(bare) == 1 else ("nodes", "their")
    return Sight(
        f"CPUs of {nodes} {_ids(bare)} are allowed, {its} memory is not (cpuset.mems "
        f"{cpu_list(allowed)})"
    )


def _with_cpus(facts: Facts) -> list[Node]:
    return [n for n in facts.nodes if n.cpus]


def _ids(nodes: list[Node]) -> str:
    return ", ".join(str(n.id) for n in nodes)


def _sockets(count: int) -> str:
    return "1 socket" if count == 1 else f"{count} sockets"
