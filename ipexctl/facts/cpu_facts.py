"""The processors and NUMA nodes of a host."""

from __future__ import annotations

from dataclasses import field

from ipexctl.base.values import by, count_or_none
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class Cpu:
    """One logical CPU. None: the kernel does not report it.

    `core` is the lowest CPU of the same core: unique on the host, where the kernel's own core ids
    repeat in each socket or die.
    """

    id: int = field(metadata=by(count_or_none, needed=True))
    core: int | None
    socket: int | None
    node: int | None


@dataclass(frozen=True)
class NumaNode:
    """One NUMA node. It may have memory and no CPU (HBM, CXL)."""

    id: int = field(metadata=by(count_or_none, needed=True))
    cpus: tuple[int, ...]
    mem_total: int | None
    mem_free: int | None


@dataclass(frozen=True)
class CpuFacts:
    arch: str
    vendor: str
    model_name: str
    family: int | None
    model: int | None
    flags: frozenset[str]
    cpus: tuple[Cpu, ...]  # those online
    # what this process may run on (affinity, cgroup cpuset)
    allowed: tuple[int, ...] | None
    # CPUs' worth of time the control group allows; None: no limit
    quota: float | None = None
    stepping: int | None = None
    microcode: str = ""
    offline: tuple[int, ...] = ()
    smt: str = ""  # on, off, forceoff, notsupported, ...; "" on kernels that do not report it
    efficient: tuple[int, ...] = ()  # the slower cores of a hybrid processor
    simulated: bool = False  # another file covers /proc/cpuinfo: a practice host
    amx_kernel: bool | None = None  # the kernel lets programs use AMX; None: not reported
