"""The configuration of a machine: frequencies, kernel switches, limits, sessions.

remote/facts/machine_state.py reads them.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ipexctl.base.values import by, count_or_none
from ipexctl.facts.live_runs import LiveRun
from ipexctl.quick_dataclass import dataclass

NO_LIMIT = 1 << 62
PRACTICE = "ipexctl lab"  # value on a practice host where a container has its manager's name


@dataclass(frozen=True)
class Power:
    driver: str = ""  # intel_pstate, intel_cpufreq, amd-pstate-epp, acpi-cpufreq, ...
    status: str = ""  # of intel_pstate or amd_pstate: active, passive, guided
    governors: tuple[str, ...] = ()  # all that are in use
    preferences: tuple[str, ...] = ()  # energy_performance_preference, all that are in use
    turbo: bool | None = None
    max_khz: int | None = None  # what software allows
    hardware_khz: int | None = None  # what the processor could
    throttled: int | None = None  # times since boot, in a sample of the cores


@dataclass(frozen=True)
class Kernel:
    thp: str = ""  # always, madvise, never
    numa_balancing: int | None = None
    zone_reclaim: int | None = None
    overcommit: int | None = None
    swappiness: int | None = None


def _read_limit(value: Any) -> int | None:
    """Return a limit: -1, and on some kernels the largest number, mean no limit."""
    endless = isinstance(value, int) and (value == -1 or value >= NO_LIMIT)
    return NO_LIMIT if endless else count_or_none(value)


@dataclass(frozen=True)
class Limit:
    """A limit; NO_LIMIT if there is none."""

    soft: int = field(metadata=by(_read_limit, needed=True))
    hard: int = field(metadata=by(_read_limit, needed=True))


@dataclass(frozen=True)
class UserLimits:
    nofile: Limit | None = None
    nproc: Limit | None = None
    file_size: Limit | None = None
    stack: Limit | None = None
    address_space: Limit | None = None
    cpu_seconds: Limit | None = None
    pids: int | None = None  # of the control group


@dataclass(frozen=True)
class System:
    bits: int | None = None  # of the programs
    container: str = ""  # docker, podman, kubernetes, ...
    netns: int | None = None  # identifies the network namespace
    login_shell: str = ""  # the account's: bash, zsh, ...
    login_ms: int | None = None  # from its start to that of our Python
    session: bool | None = None  # logind knows this login
    kill_user_processes: bool | None = None
    remove_ipc: bool | None = None
    linger: bool | None = None

    @property
    def in_container(self) -> bool:
        return self.container not in ("", PRACTICE)


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


@dataclass(frozen=True)
class Condition:
    power: Power = Power()
    kernel: Kernel = Kernel()
    limits: UserLimits = UserLimits()
    system: System = System()
    load: Load = Load()
