"""The processor: what it can compute, how much of it this user may use, and its NUMA nodes."""

from __future__ import annotations

import re

from ipexctl.doctor.checks.memory_and_swap import SEE_DIMMS
from ipexctl.doctor.checks.registry import Evidence, cluster_check, host_check
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.finding import Fix, Severity, Shell, command, do
from ipexctl.facts import host_facts as of
from ipexctl.facts import isa, processors
from ipexctl.facts.facts import Facts
from ipexctl.facts.system_facts import PRACTICE
from ipexctl.stack.version_table import ISA, maintained_rows

_EXPOSE = (
    "give the virtual machine its host's CPU model (libvirt: <cpu mode='host-passthrough'/>, QEMU: "
    "-cpu host, Proxmox: cpu: host), then shut it down and start it again"
)
_FP32 = "train in fp32 on these hosts (no --bf16, no autocast)"
_BOOTED = do(
    "look at ", command("cat /proc/cmdline"), " and at the kernel's age: ", command("uname -r")
)


def _look_below(facts: Facts, feature: str, otherwise: str) -> Fix:
    """Return a fix for a feature that a hypervisor may hide, or `otherwise` on real hardware."""
    if not processors.anonymous_guest(facts.cpu):
        return do(otherwise)
    outer = do(f"if the physical machine has {feature} (", command("lscpu"), f" there): {_EXPOSE}")
    return outer | do(f"otherwise: {otherwise}")


@cluster_check(
    "CPU-001",
    title="the processor has no AVX2",
    severity=(Severity.WARN, Severity.FAIL),
    seen="no AVX2 with FMA: PyTorch runs without its fast kernels (fail: below what every stack "
    "in the version table needs, x86-64-v2 for stock PyTorch)",
    why="Stock PyTorch then uses SSE kernels, several times slower, and all hosts wait for this "
    "one; IPEX does not start.",
)
def no_avx2(cluster: CheckedHosts) -> list[Evidence]:
    needs = {ISA[row.isa] for row in maintained_rows(cluster.rows)} or {ISA["x86-64-v2"]}
    x86 = [facts for facts in cluster.hosts if isa.is_x86(facts.cpu)]
    without = [facts for facts in x86 if isa.cpu_level(facts.cpu) in ("sse", "avx")]
    return [report for facts in without if (report := _below_avx2(facts, needs))]


def _below_avx2(facts: Facts, needs: set[frozenset[str]]) -> Evidence | None:
    """Report a processor without AVX2, or without what PyTorch needs at all."""
    if any(need <= facts.cpu.flags for need in needs):
        if processors.underreported_processor(facts.cpu):
            return None  # CPU-005 reports it
        fix = _look_below(facts, "AVX2", "leave this host out if the others have AVX2")
        evidence = f"{_cpu_name(facts)}: {_missing_flags(facts, 'avx2', 'fma')}"
        return Evidence(evidence, host=facts.host, fix=fix)
    least = min(needs, key=lambda need: len(need - facts.cpu.flags))
    return Evidence(
        f"{_cpu_name(facts)}: {_missing_flags(facts, *sorted(least))}",
        host=facts.host,
        severity=Severity.FAIL,
        title="the processor cannot run PyTorch",
        why="oneDNN, which runs PyTorch's layers, needs SSE4.1, and NumPy needs x86-64-v2: `could "
        "not create a primitive`, or `Illegal instruction` at the import.",
        fix=_look_below(facts, "SSE4.2", "leave this host out"),
    )


@host_check(
    "CPU-002",
    title="no bf16 in hardware",
    severity=Severity.NOTE,
    seen="no bf16 in hardware: AVX2, or AVX-512 without BF16",
    why="bf16 is emulated here: slower than fp32, and with IPEX on AVX2 it is known to misbehave.",
    fix=_FP32,
)
def no_bf16(facts: Facts) -> Evidence | None:
    """Report missing bf16, except where the processor has it and it is only hidden (CPU-005)."""
    level, hidden = isa.cpu_level(facts.cpu), processors.underreported_processor(facts.cpu)
    if level not in ("avx2", "avx512") or (hidden and hidden.bf16):
        return None
    return Evidence(
        f"{_cpu_name(facts)}: {_missing_flags(facts, 'avx512_bf16', 'amx_bf16')}",
        title=f"no bf16 in hardware ({level} only)",
        fix=_look_below(facts, "AVX-512 BF16 or AMX", _FP32),
    )


@host_check(
    "CPU-004",
    title="the kernel is too old for AMX",
    severity=Severity.WARN,
    seen="AMX in the processor, and a kernel that does not know ARCH_GET_XCOMP_SUPP of arch_prctl; "
    "if the kernel gave no answer, one older than 5.16 (RHEL 8 and 9 and SLES 15 SP4 backported "
    "it)",
    why="A program asks the kernel for AMX (arch_prctl, since Linux 5.16). Where that fails, "
    "oneDNN falls back to AVX-512, several times slower in bf16.",
    fix=do("boot a newer kernel; ", command("uname -r"), " shows the running one"),
)
def amx_needs_kernel(facts: Facts) -> Evidence | None:
    if "amx_tile" not in facts.cpu.flags or facts.cpu.amx_kernel:
        return None
    if facts.cpu.amx_kernel is False:
        return Evidence(f"{facts.kernel} was asked and does not know AMX, {_cpu_name(facts)}")
    match = re.match(r"Linux (\d+)\.(\d+)", facts.kernel)
    backported = re.search(r"\.el[89]|-150[4-9]00\.", facts.kernel)
    if not match or backported:
        return None
    version = int(match[1]), int(match[2])
    return Evidence(f"{facts.kernel}, {_cpu_name(facts)}") if version < (5, 16) else None


@host_check(
    "CPU-005",
    title="some of the CPU's instructions are hidden",
    severity=(Severity.WARN, Severity.NOTE),
    seen="a processor of this family, model and stepping supports more than /proc/cpuinfo shows "
    "(note: in a virtual machine, which cannot change that, and on a practice host)",
    why="Code uses only what is shown. A hypervisor, a boot option (clearcpuid, noxsave) "
    "or a kernel older than the processor hides the rest.",
    fix=_BOOTED,
)
def hidden_instructions(facts: Facts) -> Evidence | None:
    processor = processors.underreported_processor(facts.cpu)
    if not processor:
        return None
    text = f"{processor.name} has {processor.level}, only {isa.cpu_level(facts.cpu)} is shown"
    if facts.condition.system.container == PRACTICE:
        title = "the machine under this practice host hides some of its instructions"
        return Evidence(text, severity=Severity.NOTE, title=title, fix="nothing to do for practice")
    if not processors.is_guest(facts.cpu):
        return Evidence(text)
    cloud = "; in a cloud choose an instance type that shows it"
    machine = f"{text} in a virtual machine"
    return Evidence(machine, severity=Severity.NOTE, fix=_EXPOSE + cloud)


@host_check(
    "CPU-008",
    title="some CPUs are offline",
    severity=Severity.NOTE,
    seen="CPUs other than second hardware threads are offline",
    why="Nothing runs on them, so with fewer cores than the others this host is the slow one.",
    fix=Shell(
        "for c in /sys/devices/system/cpu/cpu[0-9]*/online; do echo 1 | sudo tee $c; done",
        needs_root=True,
    ),
)
def offline(facts: Facts) -> Evidence | None:
    """Report CPUs that are offline, unless they are the second threads of cores (SMT switched off).

    Old kernels do not report SMT; there most machines number all second threads after the first.
    """
    cpu = facts.cpu
    if not cpu.offline or cpu.smt in ("off", "forceoff"):
        return None
    if cpu.cpus and min(cpu.offline) > max(c.id for c in cpu.cpus):
        return None
    return Evidence(f"{len(cpu.offline)} of {len(cpu.offline) + len(cpu.cpus)} are offline")


@host_check(
    "CORE-001",
    title="ipexctl may use only some of the CPUs",
    severity=Severity.NOTE,
    seen="a cpuset or a CPU affinity allows only some of the CPUs",
    why="A cgroup cpuset or a CPU affinity (from a job scheduler or a container), or isolcpus= in "
    "the kernel command line, restricts ipexctl to these. It plans ranks and threads within them.",
    fix="ask your scheduler or container runtime for more CPUs, or remove isolcpus=, if you "
    "expected more",
)
def part_of_the_cpus(facts: Facts) -> Evidence | None:
    usable, online = of.usable_cpus(facts), len(facts.cpu.cpus)
    if usable is None or len(usable) >= online:
        return None
    return Evidence(f"{len(usable)} of {online} CPUs that are online")


@host_check(
    "CORE-002",
    title="one CPU only",
    severity=Severity.WARN,
    seen="one CPU only",
    why="Computation and communication share one CPU, and all other hosts wait.",
    fix="give this host at least two CPUs, or leave it out",
)
def one_cpu(facts: Facts) -> Evidence | None:
    usable = of.usable_cpus(facts)
    if usable is None or len(usable) != 1:
        return None
    return Evidence(f"CPU {min(usable)} of {len(facts.cpu.cpus)} online")


@host_check(
    "CORE-003",
    title="a quota allows less CPU time than there are CPUs",
    severity=Severity.WARN,
    seen="a cgroup quota gives less CPU time than there are CPUs",
    why="With one thread per CPU, the kernel pauses all of them for part of every period; one "
    "such host slows down every step of the run.",
    fix="raise the limit (docker: --cpus, Kubernetes: limits.cpu, cgroup: cpu.max), or pin with "
    "--cpuset-cpus instead",
)
def quota(facts: Facts) -> Evidence | None:
    usable = of.usable_cpus(facts)
    if usable is None or facts.cpu.quota is None or facts.cpu.quota >= len(usable):
        return None
    return Evidence(f"cgroup quota of {facts.cpu.quota:g} CPUs on {len(usable)} CPUs")


def _cpu_name(facts: Facts) -> str:
    return facts.cpu.model_name or facts.cpu.vendor or "this CPU"


def _missing_flags(facts: Facts, *flags: str) -> str:
    return "no " + ", ".join(f for f in flags if f not in facts.cpu.flags) + " in /proc/cpuinfo"


@host_check(
    "TOPO-005",
    title="several sockets, but one NUMA node",
    severity=Severity.WARN,
    seen="a bare-metal host with two or more sockets shows one NUMA node",
    why="Memory is interleaved across the sockets, so half of all accesses are remote, and ranks "
    "cannot be placed near their memory.",
    fix="disable node interleaving in the firmware, and remove numa=off from the kernel command "
    "line",
)
def hidden_numa(facts: Facts) -> Evidence | None:
    """Report one NUMA node for several sockets, except on virtual machines or without AVX2."""
    sockets = {cpu.socket for cpu in facts.cpu.cpus if cpu.socket is not None}
    virtual = "hypervisor" in facts.cpu.flags or "avx2" not in facts.cpu.flags
    if virtual or len(sockets) < 2 or len(facts.nodes) != 1:
        return None
    return Evidence(f"{len(sockets)} sockets, 1 node")


@host_check(
    "TOPO-006",
    title="a NUMA node has CPUs but no memory",
    severity=Severity.WARN,
    seen="a NUMA node with CPUs has no memory",
    why="All memory of its ranks is remote: half the bandwidth or less.",
    fix=do("install DIMMs for every socket (", SEE_DIMMS, " shows which slots are empty)"),
)
def no_memory(facts: Facts) -> Evidence | None:
    nodes = [str(n.id) for n in facts.nodes if n.cpus and n.mem_total == 0]
    return Evidence(f"nodes {', '.join(nodes)}") if nodes else None
