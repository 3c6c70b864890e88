"""Problems that break or slow down training, found from facts alone.

A check is one function with its declaration (registry.py). CONTRIBUTING.md says how to add one.
"""

from __future__ import annotations

from ipexctl.doctor.checks import (
    cpu,
    cpu_frequency,
    host_identity,
    interfaces,
    limits,
    memory,
    mpi_install,
    perf,
    reachability,
    software_stack,
    storage,
    system,
    uniformity,
)
from ipexctl.doctor.checks.registry import Check, declared, run
from ipexctl.doctor.report.cluster import Cluster
from ipexctl.doctor.report.finding import Finding

# The order of the families on the screen.
_CHECKS = declared(
    (
        cpu,
        cpu_frequency,
        memory,
        limits,
        storage,
        system,
        host_identity,
        reachability,
        interfaces,
        software_stack,
        mpi_install,
        uniformity,
        perf,
    )
)


def catalogue() -> tuple[Check, ...]:
    """Return every check in the order of the families."""
    return _CHECKS


def run_all(cluster: Cluster) -> tuple[Finding, ...]:
    return run(_CHECKS, cluster)
