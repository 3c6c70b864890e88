"""What would break or slow a training, seen in facts alone.

A check is one function. It gets the facts of one host, or of all of them, and returns findings. To
add one: write it in the module of its family, put it into the list below, describe its ids in
docs/checks.md and give it a fixture in tests/test_checks.py. Ids are for ever; never reuse one.
"""

from __future__ import annotations

from collections.abc import Callable

from ipexctl.core.checks import cpu, network, storage, system, uniformity
from ipexctl.core.checks.cluster import Cluster
from ipexctl.core.model import Facts, Finding, Severity

HOST_CHECKS: tuple[Callable[[Facts], list[Finding]], ...] = (
    cpu.instruction_set,
    cpu.cores,
    storage.memory,
    storage.shared_memory,
    storage.disk,
    system.python,
)
CLUSTER_CHECKS: tuple[Callable[[Cluster], list[Finding]], ...] = (
    network.own_name,
    network.peers,
    system.clocks,
    uniformity.same_architecture,
    uniformity.same_instruction_set,
    uniformity.same_cores,
    uniformity.common_python,
    uniformity.same_libc,
)

_ORDER = list(Severity)


def run_all(cluster: Cluster) -> tuple[Finding, ...]:
    """All findings, the worst first; within that in the order of checks, then of hosts."""
    found = [f for check in HOST_CHECKS for facts in cluster.hosts for f in check(facts)]
    found += [f for check in CLUSTER_CHECKS for f in check(cluster)]
    return tuple(sorted(found, key=lambda f: _ORDER.index(f.severity)))
