"""Machines that people train on, as trees of our own: after their public lscpu outputs.

Each is what such a machine looks like when all is well, and says what is to be seen and advised.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.facts.machines import Machine, regular

_AVX2 = "fpu sse sse2 ssse3 sse4_1 sse4_2 cx16 popcnt avx avx2 fma f16c bmi1 bmi2"
_AVX512 = _AVX2 + " avx512f avx512dq avx512bw avx512vl avx512cd"
_VNNI = _AVX512 + " avx512_vnni"
_BF16 = _VNNI + " avx512_bf16"
_AMX = _BF16 + " avx512_fp16 amx_bf16 amx_tile amx_int8 la57"
_CPU = "sys/devices/system/cpu"
GIB = 1 << 20  # in KiB

_QUIET = {
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "proc/sys/kernel/numa_balancing": "0",
    "proc/sys/vm/zone_reclaim_mode": "0",
    "proc/sys/vm/overcommit_memory": "0",
    "proc/sys/vm/swappiness": "60",
}


def _cpufreq(driver: str, governor: str, khz: int, **files: str) -> dict[str, str]:
    policy = f"{_CPU}/cpufreq/policy0"
    return {
        f"{policy}/scaling_driver": driver,
        f"{policy}/scaling_governor": governor,
        f"{policy}/scaling_max_freq": str(khz),
        f"{policy}/cpuinfo_max_freq": str(khz),
        **{f"{_CPU}/{name}": text for name, text in files.items()},
    }


_PSTATE = _cpufreq(
    "intel_pstate",
    "powersave",
    3_800_000,
    **{
        "intel_pstate/status": "active",
        "intel_pstate/no_turbo": "0",
        "cpufreq/policy0/energy_performance_preference": "balance_performance",
        "cpu0/thermal_throttle/core_throttle_count": "0",
        "cpu0/thermal_throttle/package_throttle_count": "0",
    },
)
_ACPI = _cpufreq("acpi-cpufreq", "schedutil", 2_400_000, **{"cpufreq/boost": "1"})


@dataclass(frozen=True)
class Real:
    """`shape`: CPUs, cores, sockets, NUMA nodes. `advice`: dtype, ranks, threads per rank."""

    machine: Machine
    shape: tuple[int, int, int, int]
    level: str
    processor: str
    advice: tuple[str, int, int]
    reasons: tuple[str, ...]  # words that the advice must give
    seen: tuple[tuple[str, str], ...] = ()  # id and severity of what is to be found
    kernel: str = "Linux 6.8.0-45-generic"
    verdict: str = ""
    arch: str = field(default="x86_64")


def server(
    name: str,
    *,
    ids: tuple[int, int, int],
    sockets: int,
    cores: int,
    flags: str,
    threads: int = 2,
    nodes: int = 0,
    hbm: int = 0,
    vendor: str = "GenuineIntel",
    files: dict[str, str] | None = None,
) -> Machine:
    """Nodes take about equal runs of cores; `hbm` ones more have 16 GiB each and no CPU."""
    total, nodes = sockets * cores, nodes or sockets
    edges = [-(-n * total // nodes) for n in range(nodes + 1)]
    runs = [
        [(t * total + edges[n], t * total + edges[n + 1] - 1) for t in range(threads)]
        for n in range(nodes)
    ]
    lists = {n: ",".join(f"{a}-{b}" for a, b in run) for n, run in enumerate(runs)}
    sizes = dict.fromkeys(range(nodes), 128 * GIB)
    sizes |= dict.fromkeys(range(nodes, nodes + hbm), 16 * GIB)
    return Machine(
        regular(sockets, cores, threads),
        lists | dict.fromkeys(range(nodes, nodes + hbm), ""),
        flags=flags,
        name=name,
        memory=sum(sizes.values()),
        node_memory=sizes,
        ids=(vendor, *ids),
        files=_QUIET | (_PSTATE if files is None else files),
    )


_SPR = server("Intel(R) Xeon(R) Platinum 8480+", ids=(6, 143, 8), sockets=2, cores=56, flags=_AMX)
_NO_BF16 = (("CPU-002", "note"),)
_BF16_AMX = "bf16: AMX computes it in hardware"
_BF16_512 = "bf16: AVX-512 computes it in hardware"
_VM_FLAGS = " hypervisor"

REAL = {
    "Sapphire Rapids 8480+": Real(
        _SPR, (224, 112, 2, 2), "amx", "Sapphire Rapids",
        ("bf16", 2, 56), (_BF16_AMX, "2 ranks per host: one per NUMA node", "56 threads per rank"),
    ),
    "Xeon Max 9480, SNC4, flat": Real(
        server(
            "Intel(R) Xeon(R) CPU Max 9480", ids=(6, 143, 8), sockets=2, cores=56, flags=_AMX,
            nodes=8, hbm=8,
        ),
        (224, 112, 2, 16), "amx", "Xeon Max",
        ("bf16", 8, 14), (_BF16_AMX, "8 ranks", "(8 more have memory only)", "14 threads"),
    ),
    "Emerald Rapids 8592+": Real(
        server(
            "INTEL(R) XEON(R) PLATINUM 8592+", ids=(6, 207, 2), sockets=2, cores=64, flags=_AMX
        ),
        (256, 128, 2, 2), "amx", "Emerald Rapids",
        ("bf16", 2, 64), (_BF16_AMX,),
    ),
    "Granite Rapids 6980P, SNC3": Real(
        server(
            "Intel(R) Xeon(R) 6980P", ids=(6, 173, 1), sockets=2, cores=128, nodes=6,
            flags=_AMX + " amx_fp16",
        ),
        (512, 256, 2, 6), "amx", "Granite Rapids",
        ("bf16", 6, 42), (_BF16_AMX, "6 ranks"),
    ),
    "Cooper Lake 8380H": Real(
        server(
            "Intel(R) Xeon(R) Platinum 8380H CPU @ 2.90GHz", ids=(6, 85, 11), sockets=4,
            cores=28, flags=_BF16,
        ),
        (224, 112, 4, 4), "avx512-bf16", "Cooper Lake", ("bf16", 4, 28), (_BF16_512, "4 ranks"),
    ),
    "Ice Lake-SP 8380": Real(
        server(
            "Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz", ids=(6, 106, 6), sockets=2, cores=40,
            flags=_VNNI,
        ),
        (160, 80, 2, 2), "avx512", "Ice Lake-SP", ("fp32", 2, 40),
        ("fp32: avx512 has no fast bf16",), _NO_BF16,
    ),
    "Cascade Lake 6230": Real(
        server(
            "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz", ids=(6, 85, 7), sockets=2, cores=20,
            flags=_VNNI,
        ),
        (80, 40, 2, 2), "avx512", "Cascade Lake", ("fp32", 2, 20),
        ("fp32: avx512 has no fast bf16",), _NO_BF16, kernel="Linux 4.18.0-553.el8_10.x86_64",
    ),
    "Skylake-SP 8160": Real(
        server(
            "Intel(R) Xeon(R) Platinum 8160 CPU @ 2.10GHz", ids=(6, 85, 4), sockets=2, cores=24,
            flags=_AVX512, threads=1,
        ),
        (48, 48, 2, 2), "avx512", "Skylake-SP", ("fp32", 2, 24),
        ("fp32: avx512 has no fast bf16",), _NO_BF16, kernel="Linux 3.10.0-1160.el7.x86_64",
    ),
    "Broadwell E5-2680 v4": Real(
        server(
            "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", ids=(6, 79, 1), sockets=2, cores=14,
            flags=_AVX2,
        ),
        (56, 28, 2, 2), "avx2", "Broadwell", ("fp32", 2, 14),
        ("fp32: avx2 has no fast bf16",), _NO_BF16,
    ),
    "Genoa 9654, NPS4": Real(
        server(
            "AMD EPYC 9654 96-Core Processor", ids=(25, 17, 1), sockets=2, cores=96, nodes=8,
            flags=_BF16, vendor="AuthenticAMD", files=_ACPI,
        ),
        (384, 192, 2, 8), "avx512-bf16", "Zen 4", ("bf16", 8, 24), (_BF16_512, "8 ranks"),
    ),
    "KVM guest on Sapphire Rapids": Real(
        server(
            "Intel(R) Xeon(R) Platinum 8480C", ids=(6, 143, 8), sockets=2, cores=90, threads=1,
            flags=_AMX + _VM_FLAGS, files={},
        ),
        (180, 180, 2, 2), "amx", "Sapphire Rapids",
        ("bf16", 2, 90), (_BF16_AMX, "2 ranks"),
    ),
    "Hyper-V guest with 4 vCPUs": Real(
        server(
            "Intel(R) Xeon(R) Platinum 8473C", ids=(6, 143, 8), sockets=1, cores=2, threads=2,
            flags=_AMX + _VM_FLAGS, files={},
        ),
        (4, 2, 1, 1), "amx", "Sapphire Rapids",
        ("bf16", 1, 2), (_BF16_AMX, "1 rank per host"), kernel="Linux 6.8.0-1015-azure",
    ),
    "Sapphire Rapids, a container on CPUs 0-13": Real(
        replace(
            _SPR,
            files=_SPR.files | {
                "proc/self/cgroup": "0::/job\n",
                "proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
                "sys/fs/cgroup/job/cpuset.cpus.effective": "0-13",
            },
        ),
        (224, 14, 2, 2), "amx", "Sapphire Rapids",
        ("bf16", 1, 14), ("1 rank per host", "14 threads per rank: one per allowed core"),
        (("CORE-001", "note"),),
    ),
    "Neoverse V1": Real(
        Machine(
            regular(1, 64, 1), {0: "0-63"}, arm=True, name="", memory=128 * GIB,
            node_memory={0: 128 * GIB}, flags="fp asimd sve svei8mm svebf16 i8mm bf16",
            ids=("0x41", 8, 0xD40, 1), files=_QUIET,
        ),
        (64, 64, 1, 1), "sve-bf16", "Neoverse V1", ("fp32", 1, 64),
        ("fp32",), (), arch="aarch64",
        verdict="aarch64 is not x86: stock PyTorch with gloo, without IPEX, oneCCL and Intel MPI "
        "(ipexctl install --mpi none)",
    ),
}  # fmt: skip
