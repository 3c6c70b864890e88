"""Problems that break or slow down training, found from facts alone.

A check is one function with its declaration (registry.py). CONTRIBUTING.md says how to add one.
"""

from __future__ import annotations

from ipexctl.doctor.checks import (
    clocks,
    cpu,
    cpu_frequency,
    duplicate_hosts,
    interfaces,
    kernel,
    limits,
    load,
    memory_and_swap,
    mpi_install,
    name_resolution,
    other_runs,
    ports_and_firewalls,
    proxies,
    pythons,
    reachability,
    shared_memory,
    software,
    speed,
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
        memory_and_swap,
        kernel,
        shared_memory,
        limits,
        storage,
        pythons,
        load,
        other_runs,
        system,
        duplicate_hosts,
        clocks,
        reachability,
        name_resolution,
        interfaces,
        ports_and_firewalls,
        proxies,
        software,
        mpi_install,
        uniformity,
        speed,
    )
)


def all_checks() -> tuple[Check, ...]:
    """Return every check in the order of the families."""
    return _CHECKS


def run_all(cluster: CheckedHosts) -> tuple[Finding, ...]:
    return run_checks(_CHECKS, cluster)
