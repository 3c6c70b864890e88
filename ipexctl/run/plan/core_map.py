"""A host's cores as one sign each, for `run --explain`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ipexctl.facts import usable_cores
from ipexctl.facts.facts import Facts
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.launch import HostPlan

RANKS = "0123456789abdfghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"  # no c, no e
COMM, FREE, SLOW, NOT_OURS, SHARED, MANY = "c", ".", "e", "-", "*", "#"
LEGEND = {
    COMM: "communication",
    FREE: "unused",
    SLOW: "a slower core, unused",
    NOT_OURS: "not allowed, or offline",
    SHARED: "shared by all ranks of the host",
    MANY: f"a rank above {len(RANKS) - 1}",
}


@dataclass(frozen=True)
class Row:
    """One NUMA node. `signs` is "" for a node with memory but no CPUs."""

    socket: int | None
    node: int | None
    signs: str
    memory: int | None


def rows(facts: Facts, host: HostPlan) -> tuple[Row, ...]:
    found: dict[tuple[int | None, int | None], list[str]] = {}
    whole = usable_cores.cores(replace(facts.cpu, allowed=None))
    where = {c.id: (c.socket, c.node) for c in facts.cpu.cpus}
    sign = _signs(facts, host)
    for core in whole:
        found.setdefault(where[core[0]], []).append(sign(core))
    memory = {n.id: n.mem_total for n in facts.nodes}
    made = [
        Row(socket, node, "".join(signs), memory.get(node) if node is not None else None)
        for (socket, node), signs in found.items()
    ]
    alone = [Row(None, n.id, "", n.mem_total) for n in facts.nodes if not n.cpus and n.mem_total]
    return (*made, *alone)


def _signs(facts: Facts, host: HostPlan) -> Callable[[usable_cores.Core], str]:
    cpu = facts.cpu
    ours = {c.id for c in cpu.cpus} if cpu.allowed is None else set(cpu.allowed)
    comm = {number for place in host.ranks for number in place.comm}
    rank: dict[int, str] = {}
    for place in host.ranks:
        own = RANKS[place.local_rank] if place.local_rank < len(RANKS) else MANY
        rank.update((number, SHARED if number in rank else own) for number in place.cpus)

    def sign(core: usable_cores.Core) -> str:
        ids = [number for number in core if number in ours]
        if not ids:
            return NOT_OURS
        computing = next((rank[number] for number in ids if number in rank), "")
        if computing or comm & set(ids):
            return computing or COMM
        return SLOW if set(cpu.efficient) & set(ids) else FREE

    return sign
