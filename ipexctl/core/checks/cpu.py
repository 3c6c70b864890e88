"""The processor: what it can compute, and how much of it this user gets."""

from __future__ import annotations

from ipexctl.core import facts as of
from ipexctl.core import isa
from ipexctl.core.checks.registry import Sight, host_check
from ipexctl.core.model import Facts, Severity


@host_check(
    "CPU-001",
    title="the processor has no AVX2",
    severity=Severity.FAIL,
    seen="the processor has no AVX2 with FMA: IPEX does not start",
    why="IPEX refuses to start below AVX2, and PyTorch's fast kernels need it. In a virtual "
    "machine the hypervisor may hide what the processor has.",
    fix="leave this host out, or let its virtual machine see the host's CPU "
    "(libvirt: <cpu mode='host-passthrough'/>)",
)
def no_avx2(facts: Facts) -> Sight | None:
    if isa.level(facts.cpu) != "sse" or not isa.is_x86(facts.cpu):
        return None
    return Sight(f"{_name(facts)}: {_missing(facts, 'avx2', 'fma')}")


@host_check(
    "CPU-002",
    title="no bf16 in hardware",
    severity=(Severity.WARN, Severity.NOTE),
    seen="no bf16 in hardware: warn with AVX2 only, note with AVX-512",
    why="bf16 is emulated here: slower than fp32, and with IPEX on AVX2 it is known to misbehave.",
    fix="train in fp32 on these hosts (no --bf16, no autocast)",
)
def no_bf16(facts: Facts) -> Sight | None:
    level = isa.level(facts.cpu)
    if level not in ("avx2", "avx512"):
        return None
    return Sight(
        f"{_name(facts)}: {_missing(facts, 'avx512_bf16', 'amx_bf16')}",
        title=f"no bf16 in hardware ({level} only)",
        severity=Severity.WARN if level == "avx2" else Severity.NOTE,
    )


@host_check(
    "CPU-003",
    title="no x86 processor: IPEX and oneCCL do not exist for it",
    severity=Severity.NOTE,
    seen="no x86 processor: no IPEX, stock PyTorch works",
    why="IPEX was built for x86-64 only. Stock PyTorch with gloo works.",
    fix="choose a stack without IPEX",
)
def no_x86(facts: Facts) -> Sight | None:
    return None if isa.is_x86(facts.cpu) else Sight(f"architecture {facts.cpu.arch}")


@host_check(
    "CORE-001",
    title="only a part of the CPUs is ours",
    severity=Severity.NOTE,
    seen="a cpuset or an affinity leaves us a part of the CPUs",
    why="A cgroup cpuset or a CPU affinity (a job scheduler, a container) keeps us to these. "
    "ipexctl plans ranks and threads within them.",
    fix="ask your scheduler or container runtime for more CPUs, if you expected more",
)
def part_of_the_cpus(facts: Facts) -> Sight | None:
    usable, online = of.usable(facts), len(facts.cpu.cpus)
    if usable is None or len(usable) >= online:
        return None
    return Sight(f"{len(usable)} of {online} CPUs that are online")


@host_check(
    "CORE-002",
    title="one CPU only",
    severity=Severity.WARN,
    seen="one CPU only",
    why="Computing and communicating take turns on one CPU, and all other hosts wait.",
    fix="give this host two CPUs or more, or leave it out",
)
def one_cpu(facts: Facts) -> Sight | None:
    usable = of.usable(facts)
    if usable is None or len(usable) != 1:
        return None
    return Sight(f"CPU {min(usable)} of {len(facts.cpu.cpus)} online")


@host_check(
    "CORE-003",
    title="CPU time is limited below the number of CPUs",
    severity=Severity.WARN,
    seen="a cgroup quota gives less CPU time than there are CPUs",
    why="With one thread per CPU the kernel stops all of them for a part of every period; one such "
    "host slows every step of the whole training.",
    fix="raise the limit (docker: --cpus, Kubernetes: limits.cpu, cgroup: cpu.max), or pin with "
    "--cpuset-cpus instead",
)
def quota(facts: Facts) -> Sight | None:
    usable = of.usable(facts)
    if usable is None or facts.cpu.quota is None or facts.cpu.quota >= len(usable):
        return None
    return Sight(f"cgroup quota of {facts.cpu.quota:g} CPUs on {len(usable)} CPUs")


def _name(facts: Facts) -> str:
    return facts.cpu.model_name or facts.cpu.vendor or "this CPU"


def _missing(facts: Facts, *flags: str) -> str:
    return "no " + ", ".join(f for f in flags if f not in facts.cpu.flags) + " in /proc/cpuinfo"
