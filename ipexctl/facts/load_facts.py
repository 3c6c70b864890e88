"""How busy a host is."""

from __future__ import annotations

from ipexctl.facts.other_runs_facts import LiveRun
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Load:
    """How busy the host was with other work when it was asked."""

    # of 1, 5 and 15 minutes
    average: tuple[float, ...] = ()
    busy: float | None = None  # CPUs that others used meanwhile; None: not measured, low load
    # programs and the CPUs they used
    top: tuple[tuple[str, float], ...] = ()
    blocked: int | None = None  # processes that wait for a disk or a file server
    cpu_pressure: float | None = None  # per cent of 10 s in which some had to wait for a CPU
    memory_pressure: float | None = None  # in which all had to wait for memory
    runs: tuple[LiveRun, ...] = ()  # of ipexctl, by any account
