"""Hosts for plans: the machines of tests/facts, and further shapes that a planner can trip over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ipexctl.facts.facts import Facts
from ipexctl.run.plan.launch import PlannedHost
from tests import made
from tests.facts.machines import MACHINES, Machine, regular
from tests.facts.real import REAL, server

BINDINGS = (("torch", "2.7.0"), ("oneccl-bind-pt", "2.7.0+cpu"))
AMX = MACHINES["two sockets with SMT"].flags


def _group(cpuset: str, cpu_max: str = "max 100000") -> dict[str, str]:
    return {
        "proc/self/cgroup": "0::/job\n",
        "proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
        "sys/fs/cgroup/job/cpuset.cpus.effective": cpuset,
        "sys/fs/cgroup/job/cpu.max": cpu_max,
    }


def _server(sockets: int, cores: int, threads: int, nodes: int) -> Machine:
    return server(
        "Made", ids=(6, 143, 8), sockets=sockets, cores=cores, threads=threads, nodes=nodes,
        flags=AMX, files={},
    )  # fmt: skip


TWO = _server(2, 8, 2, 2)
SHAPES: dict[str, Machine] = {
    **MACHINES,
    **{name: real.machine for name, real in REAL.items()},
    "2 x 8, SMT": TWO,
    "2 x 8, SMT off": _server(2, 8, 1, 2),
    "one node": _server(1, 8, 2, 1),
    "16 nodes": _server(4, 8, 1, 16),
    "holes": replace(TWO, files=_group("1,3-5,8-9,12,15,17,19")),
    "second threads alone": replace(TWO, files=_group("16-31")),
    "a node and a crumb": replace(TWO, files=_group("0-7,8")),
    "quota of 6": replace(TWO, files=_group("0-31", "600000 100000")),
    "quota of 12": replace(TWO, files=_group("0-31", "1200000 100000")),
    "quota of one and a half": replace(TWO, files=_group("0-31", "150000 100000")),
    "node 1 has no memory": replace(TWO, node_memory={0: 1 << 20, 1: 0}),
    "performance and efficiency cores": replace(
        MACHINES["performance and efficiency cores"],
        files={"sys/devices/cpu_atom/cpus": "12-19"},
    ),
    "one core": Machine(regular(1, 1, 1), {0: "0"}),
    "CPUs numbered thread by thread": Machine(
        tuple((i // 4, (2 * i, 2 * i + 1)) for i in range(8)), {0: "0-7", 1: "8-15"}
    ),
    "nodes take turns": Machine(regular(2, 4, 1), {0: "0,2,4,6", 1: "1,3,5,7"}),
}


def on_network(machine: Facts, name: str, number: int = 1) -> Facts:
    """A host of that name with this machine's processors and nodes."""
    like = made.facts(name, address=f"10.0.0.{number}")
    return replace(
        like, cpu=machine.cpu, nodes=machine.nodes, nodes_contradict=machine.nodes_contradict
    )


def node(
    facts: Facts,
    *,
    slots: int = 0,
    ccl: bool = False,
    preload: Sequence[str] = (),
) -> PlannedHost:
    prepared = made.prepared()
    paths = tuple(f"{prepared.prefix}/lib/{name}" for name in preload)
    prepared = replace(prepared, preload=paths)
    if ccl:
        prepared = replace(prepared, packages=BINDINGS)
    return PlannedHost(made.host(facts.host, slots), facts, prepared)
