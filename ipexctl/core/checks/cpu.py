"""The processor: what it can compute, and how much of it this user gets."""

from __future__ import annotations

from ipexctl.core import facts as of
from ipexctl.core import isa
from ipexctl.core.model import Facts, Finding, Severity


def instruction_set(facts: Facts) -> list[Finding]:
    level = isa.level(facts.cpu)
    cpu = facts.cpu.model_name or facts.cpu.vendor or "this CPU"
    if facts.cpu.arch and not facts.cpu.arch.startswith(("x86", "i686", "amd64")):
        return [
            Finding(
                id="CPU-003",
                severity=Severity.NOTE,
                host=facts.host,
                title="no x86 processor: IPEX and oneCCL do not exist for it",
                evidence=f"architecture {facts.cpu.arch}",
                why="IPEX was built for x86-64 only. Stock PyTorch with gloo works.",
                fix="choose a stack without IPEX",
            )
        ]
    if level == "sse":
        return [
            Finding(
                id="CPU-001",
                severity=Severity.FAIL,
                host=facts.host,
                title="the processor has no AVX2",
                evidence=f"{cpu}: " + _missing(facts, "avx2", "fma"),
                why="IPEX refuses to start below AVX2, and PyTorch's fast kernels need it. In a "
                "virtual machine the hypervisor may hide what the processor has.",
                fix="leave this host out, or let its virtual machine see the host's CPU "
                "(libvirt: <cpu mode='host-passthrough'/>)",
            )
        ]
    if level in ("avx2", "avx512"):
        return [
            Finding(
                id="CPU-002",
                severity=Severity.WARN if level == "avx2" else Severity.NOTE,
                host=facts.host,
                title=f"no bf16 in hardware ({level} only)",
                evidence=f"{cpu}: " + _missing(facts, "avx512_bf16", "amx_bf16"),
                why="bf16 is emulated here: slower than fp32, and with IPEX on AVX2 it is known to "
                "misbehave.",
                fix="train in fp32 on these hosts (no --bf16, no autocast)",
            )
        ]
    return []


def cores(facts: Facts) -> list[Finding]:
    """Fewer CPUs than the machine has, fewer than their number says, or one alone."""
    usable = of.usable(facts)
    if usable is None:
        return []
    online = len(facts.cpu.cpus)
    found = []
    if len(usable) < online:
        found.append(
            Finding(
                id="CORE-001",
                severity=Severity.NOTE,
                host=facts.host,
                title="only a part of the CPUs is ours",
                evidence=f"{len(usable)} of {online} CPUs that are online",
                why="A cgroup cpuset or a CPU affinity (a job scheduler, a container) keeps us to "
                "these. ipexctl plans ranks and threads within them.",
                fix="ask your scheduler or container runtime for more CPUs, if you expected more",
            )
        )
    if len(usable) == 1:
        found.append(
            Finding(
                id="CORE-002",
                severity=Severity.WARN,
                host=facts.host,
                title="one CPU only",
                evidence=f"CPU {min(usable)} of {online} online",
                why="Computing and communicating take turns on one CPU, and all other hosts wait.",
                fix="give this host two CPUs or more, or leave it out",
            )
        )
    if facts.cpu.quota is not None and facts.cpu.quota < len(usable):
        found.append(
            Finding(
                id="CORE-003",
                severity=Severity.WARN,
                host=facts.host,
                title="CPU time is limited below the number of CPUs",
                evidence=f"cgroup quota of {facts.cpu.quota:g} CPUs on {len(usable)} CPUs",
                why="With one thread per CPU the kernel stops all of them for a part of every "
                "period; one such host slows every step of the whole training.",
                fix="raise the limit (docker: --cpus, Kubernetes: limits.cpu, cgroup: cpu.max), or "
                "pin with --cpuset-cpus instead",
            )
        )
    return found


def _missing(facts: Facts, *flags: str) -> str:
    return "no " + ", ".join(f for f in flags if f not in facts.cpu.flags) + " in /proc/cpuinfo"
