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
from ipexctl.doctor.checks.registry import Check, declared_checks, run_checks
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.finding import Finding

# The order of the families on the screen.
_CHECKS = declared_checks(
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


def all_checks() -> tuple[Check, ...]:
    """Return every check in the order of the families."""
    return _CHECKS


def run_all(cluster: CheckedHosts) -> tuple[Finding, ...]:
    return run_checks(_CHECKS, cluster)
