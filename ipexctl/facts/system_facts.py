"""How a machine is set: frequencies, kernel switches, limits, sessions.

Read by remote/facts/machine_state.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipexctl.base.values import count_or_none, listed, plain, record, texts
from ipexctl.facts.live_runs import LiveRun, read_live_runs
from ipexctl.quick_dataclass import dataclass

NO_LIMIT = 1 << 62
PRACTICE = "ipexctl lab"  # what a practice host says it is, where a container names its manager


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
    core_pattern: str = ""
    uptime: int | None = None  # seconds
    mitigations: tuple[str, ...] = ()  # "meltdown: Mitigation: PTI"; only where it is affected


@dataclass(frozen=True)
class Limit:
    """NO_LIMIT where there is none."""

    soft: int
    hard: int


@dataclass(frozen=True)
class Limits:
    nofile: Limit | None = None
    memlock: Limit | None = None
    nproc: Limit | None = None
    core: Limit | None = None
    address_space: Limit | None = None
    cpu_seconds: Limit | None = None
    file_size: Limit | None = None
    stack: Limit | None = None
    pids: int | None = None  # of the control group


@dataclass(frozen=True)
class System:
    bits: int | None = None  # of the programs
    container: str = ""  # docker, podman, kubernetes, ...
    netns: int | None = None  # tells two network namespaces of one kernel apart
    jobs: tuple[tuple[str, str], ...] = ()  # a scheduler's variables
    login_shell: str = ""  # the account's: bash, zsh, ...
    login_ms: int | None = None  # from its start to that of our Python
    session: bool | None = None  # logind knows this login
    kill_user_processes: bool | None = None
    remove_ipc: bool | None = None
    linger: bool | None = None
    rdma: tuple[str, ...] = ()  # devices
    infiniband: tuple[str, ...] = ()  # those of them with an active InfiniBand or OPA port

    @property
    def in_container(self) -> bool:
        return self.container not in ("", PRACTICE)


@dataclass(frozen=True)
class Load:
    """How busy the host was with other work when it was asked."""

    average: tuple[float, ...] = ()  # of 1, 5 and 15 minutes
    busy: float | None = None  # CPUs that others used meanwhile; None: not looked, the load is low
    top: tuple[tuple[str, float], ...] = ()  # programs and the CPUs they used
    blocked: int | None = None  # processes that wait for a disk or a file server
    cpu_pressure: float | None = None  # per cent of 10 s in which some had to wait for a CPU
    memory_pressure: float | None = None  # in which all had to wait for memory
    runs: tuple[LiveRun, ...] = ()  # of ipexctl, by any account


@dataclass(frozen=True)
class Condition:
    power: Power = Power()
    kernel: Kernel = Kernel()
    limits: Limits = Limits()
    system: System = System()
    load: Load = Load()


def parse(raw: Any) -> Condition:
    parts = raw if isinstance(raw, Mapping) else {}
    return Condition(
        power=record(Power, _map(parts.get("power"))),
        kernel=record(Kernel, _map(parts.get("kernel"))),
        limits=_limits(_map(parts.get("limits"))),
        system=_system(_map(parts.get("system"))),
        load=_load(_map(parts.get("load"))),
    )


def _load(raw: Mapping[str, Any]) -> Load:
    average = tuple(n for n in map(_share, listed(raw.get("average"))) if n is not None)
    rows = [row for row in listed(raw.get("top")) if isinstance(row, list) and len(row) == 2]
    return Load(
        average=average if len(average) == 3 else (),
        busy=_share(raw.get("busy")),
        top=tuple((plain(n, 40), c) for n, cpus in rows if (c := _share(cpus)) and plain(n, 40)),
        blocked=count_or_none(raw.get("blocked")),
        cpu_pressure=_share(raw.get("cpu_pressure")),
        memory_pressure=_share(raw.get("memory_pressure")),
        runs=read_live_runs(raw.get("runs")),
    )


def _share(value: Any) -> float | None:
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < NO_LIMIT
    return float(value) if ok else None


def _limits(raw: Mapping[str, Any]) -> Limits:
    return record(
        Limits,
        raw,
        nofile=_limit(raw.get("nofile")),
        memlock=_limit(raw.get("memlock")),
        nproc=_limit(raw.get("nproc")),
        core=_limit(raw.get("core")),
        address_space=_limit(raw.get("as")),
        cpu_seconds=_limit(raw.get("cpu")),
        file_size=_limit(raw.get("fsize")),
        stack=_limit(raw.get("stack")),
    )


def _system(raw: Mapping[str, Any]) -> System:
    jobs = [texts(row) for row in listed(raw.get("jobs"))]
    return record(
        System,
        raw,
        container=plain(raw.get("container"), 40),
        jobs=tuple((j[0], j[1]) for j in jobs if len(j) == 2),
    )


def _limit(raw: Any) -> Limit | None:
    """[soft, hard]; -1, and on some kernels the largest number of all, mean no limit."""
    numbers = [
        NO_LIMIT if isinstance(n, int) and (n == -1 or n >= NO_LIMIT) else count_or_none(n)
        for n in listed(raw)
    ]
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        return None
    return Limit(numbers[0], numbers[1])


def _map(raw: Any) -> Mapping[str, Any]:
    return raw if isinstance(raw, Mapping) else {}
