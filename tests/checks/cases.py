"""One trouble each: what is changed about a clean host, and the one finding that follows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ipexctl.facts.clocks_facts import ClockFacts
from ipexctl.facts.cpu_facts import Cpu
from ipexctl.facts.interfaces_facts import Nic
from ipexctl.facts.limits_facts import Limit
from ipexctl.facts.load_facts import Load
from ipexctl.facts.other_runs_facts import LiveRun
from tests import made
from tests.checks.hosts import (
    GIB,
    KIB,
    MIB,
    ROWS,
    Change,
    both,
    clean,
    flags,
    nfs,
    part,
    python,
    state,
    two_nodes,
    whole,
)
from tests.facts.machines import AMX, AVX2, AVX512, V2


@dataclass(frozen=True)
class Case:
    id: str
    severity: str
    change: Change
    evidence: str

    def __str__(self) -> str:
        return f"{self.id}-{self.severity}-{self.evidence[:30]}"


_MINORS = sorted({minor for row in ROWS if not row.ipex for minor in row.pythons})
_PYTHONS = " to ".join(f"{a}.{b}" for a, b in (_MINORS[0], _MINORS[-1]))
_ROOT = "/home/trainer/.ipexctl"
_NO_BF16 = "Made CPU: no avx512_bf16, amx_bf16 in /proc/cpuinfo"
_SMT = tuple(Cpu(i, i % 4, 0, 0) for i in range(8))


ANN = LiveRun(
    "20261122-122416-107233", "ann", False, ranks=2, cpus=frozenset({2, 3}), cores=2, seconds=7510
)  # fmt: skip
_LOADED = Load(
    average=(197.0, 150.0, 120.5),
    busy=3.9,
    top=(("stress-ng", 3.5), ("python3", 0.4)),
    blocked=0,
    cpu_pressure=98.0,
)


def _address(text: str, *more: str) -> Change:
    nics = (Nic("eth0", True, 1500, (text, *more)),)
    return part("net", ssh_address=text, hostname_addresses=(text,), nics=nics)


ONE_HOST = [
    Case(
        "CPU-001", "fail", flags("sse sse2 ssse3 cx16"),
        "Made CPU: no popcnt, sse4_1, sse4_2 in /proc/cpuinfo",
    ),
    Case("CPU-001", "warn", flags(V2), "Made CPU: no avx2, fma in /proc/cpuinfo"),
    Case("CPU-001", "warn", flags(V2 + " avx f16c"), "Made CPU: no avx2, fma in /proc/cpuinfo"),
    Case("CPU-002", "note", flags(AVX2), _NO_BF16),
    Case("CPU-002", "note", flags(AVX512), _NO_BF16),
    Case(
        "CPU-004", "warn", whole(kernel="Linux 5.4.0-150-generic"),
        "Linux 5.4.0-150-generic, Made CPU",
    ),
    Case(
        "CPU-004", "warn", part("cpu", amx_kernel=False),
        "Linux 6.1.0-18-amd64 was asked and does not know AMX, Made CPU",
    ),
    Case(
        "CPU-005", "warn", part("cpu", flags=frozenset(AVX2.split())),
        "Sapphire Rapids has amx, only avx2 is shown",
    ),
    Case(
        "CPU-005", "note",
        part("cpu", flags=frozenset((AVX512 + " avx512_bf16 hypervisor").split())),
        "Sapphire Rapids has amx, only avx512-bf16 is shown in a virtual machine",
    ),
    Case(
        "CPU-005", "note", part("cpu", flags=frozenset((AVX2 + " hypervisor").split())),
        "Sapphire Rapids has amx, only avx2 is shown in a virtual machine",
    ),
    Case(
        "CPU-005", "note", flags(V2 + " hypervisor", model=79),
        "Broadwell has avx2, only sse is shown in a virtual machine",
    ),
    Case(
        "CPU-005", "note",
        both(
            flags(V2 + " hypervisor", model=79), state("system", container="ipexctl lab"),
        ),
        "Broadwell has avx2, only sse is shown",
    ),
    Case("CPU-008", "note", part("cpu", offline=(1, 7)), "2 of 6 are offline"),
    Case("CPU-008", "note", part("cpu", offline=(1,), smt="notsupported"), "1 of 5 are offline"),
    Case("CORE-001", "note", part("cpu", allowed=(0, 1)), "2 of 4 CPUs that are online"),
    Case(
        "CORE-002", "warn", part("cpu", cpus=made.cpu(cores=1).cpus), "CPU 0 of 1 online"
    ),
    Case("CORE-003", "warn", part("cpu", quota=1.5), "cgroup quota of 1.5 CPUs on 4 CPUs"),
    Case(
        "TOPO-005", "warn",
        part("cpu", cpus=tuple(Cpu(i, i, i // 2, 0) for i in range(4))), "2 sockets, 1 node",
    ),
    Case("TOPO-006", "warn", two_nodes(16 * GIB, 0), "nodes 1"),
    Case(
        "PWR-001", "warn", state("power", driver="acpi-cpufreq", status=""),
        "powersave with acpi-cpufreq",
    ),
    Case("PWR-001", "warn", state("power", driver="intel_cpufreq", status="passive"),
         "powersave with intel_cpufreq"),
    Case("PWR-002", "warn", state("power", turbo=False), "driver intel_pstate"),
    Case("PWR-003", "note", state("power", throttled=3), "throttled 3 times since boot"),
    Case("PWR-003", "warn", state("power", throttled=500), "throttled 500 times since boot"),
    Case("PWR-004", "warn", state("power", max_khz=2_000_000), "2.0 GHz of 3.8 GHz"),
    Case(
        "PWR-005", "warn", state("power", preferences=("power",)),
        "energy_performance_preference power",
    ),
    Case(
        "PWR-005", "note", state("power", preferences=("balance_power",)),
        "energy_performance_preference balance_power",
    ),
    Case("MEM-001", "warn", part("mem", available=1 * GIB), "1.0 GiB available"),
    Case("MEM-001", "fail", part("mem", available=100 * MIB), "100 MiB available"),
    Case("MEM-001", "fail", part("mem", limit=256 * MIB), "256 MiB allowed by the cgroup"),
    Case(
        "MEM-001", "warn", part("mem", limit=8 * GIB, limit_left=1 * GIB),
        "1.0 GiB left of the 8.0 GiB that the cgroup allows",
    ),
    Case(
        "MEM-002", "note", part("mem", total=5 * GIB, available=5 * GIB, limit=3 * GIB),
        "3.0 GiB for 4 cores",
    ),
    Case(
        "MEM-002", "note", part("mem", total=3 * GIB, available=3 * GIB),
        "3.0 GiB for 4 cores",
    ),
    Case("MEM-003", "note", part("mem", swap_free=1 * GIB), "3.0 GiB of 4.0 GiB swap in use"),
    Case(
        "MEM-003", "warn",
        part("mem", swap_free=1 * GIB, total=64 * GIB, available=3 * GIB),
        "3.0 GiB of 4.0 GiB swap in use",
    ),
    Case(
        "MEM-004", "note", state("kernel", swappiness=100), "vm.swappiness is 100, 4.0 GiB swap"
    ),
    Case("MEM-005", "note", state("kernel", thp="never"), "never"),
    Case(
        "MEM-006", "note", both(two_nodes(), state("kernel", numa_balancing=1)),
        "kernel.numa_balancing is 1",
    ),
    Case(
        "MEM-007", "warn", both(two_nodes(), state("kernel", zone_reclaim=1)),
        "vm.zone_reclaim_mode is 1",
    ),
    Case(
        "MEM-008", "warn", state("kernel", overcommit=2),
        "vm.overcommit_memory is 2, 10 GiB left of 12 GiB",
    ),
    Case(
        "MEM-008", "fail",
        both(state("kernel", overcommit=2), part("mem", committed=11 * GIB)),
        "vm.overcommit_memory is 2, 1.0 GiB left of 12 GiB",
    ),
    Case("MEM-009", "note", part("mem", limit=4 * GIB), "4.0 GiB of 16 GiB"),
    Case("MEM-010", "warn", part("mem", huge=6 * GIB), "6.0 GiB of 16 GiB"),
    Case(
        "SHM-001", "fail", part("mem", shm_total=64 * KIB, shm_free=64 * KIB), "64 KiB in all"
    ),
    Case(
        "SHM-001", "warn", part("mem", shm_total=64 * MIB, shm_free=64 * MIB), "64 MiB in all"
    ),
    Case("SHM-002", "warn", part("mem", shm_free=1 * MIB), "1 MiB free of 8.0 GiB"),
    Case(
        "SHM-003", "fail", part("mem", shm_there=False, shm_total=None, shm_free=None),
        "no such folder",
    ),
    Case("SHM-004", "fail", part("mem", shm_writable=False), "no permission for trainer"),
    Case(
        "SHM-004", "fail", part("mem", shm_writable=False, shm_read_only=True),
        "mounted read-only",
    ),
    Case(
        "SHM-003", "fail",
        part("mem", shm_there=False, shm_total=None, shm_free=None, shm_read_only=True),
        "no such folder, and /dev is mounted read-only",
    ),
    Case(
        "LIM-001", "warn", state("limits", nofile=Limit(256, 4096)),
        "ulimit -n is 256 (hard 4096), 1 ranks",
    ),
    Case(
        "LIM-001", "fail", state("limits", nofile=Limit(32, 32)),
        "ulimit -n is 32 (hard 32), 1 ranks",
    ),
    Case(
        "LIM-003", "warn", state("limits", nproc=Limit(100, 100)), "ulimit -u is 100, 4 CPUs"
    ),
    Case("LIM-003", "fail", state("limits", nproc=Limit(3, 3)), "ulimit -u is 3, 4 CPUs"),
    Case("LIM-004", "warn", state("limits", pids=64), "pids.max is 64, 4 CPUs"),
    Case("LIM-004", "fail", state("limits", pids=2), "pids.max is 2, 4 CPUs"),
    Case(
        "LIM-008", "warn", state("limits", file_size=Limit(4 * GIB, 1 << 62)),
        "ulimit -f allows 4.0 GiB",
    ),
    Case(
        "LIM-008", "fail", state("limits", file_size=Limit(100 * MIB, 100 * MIB)),
        "ulimit -f allows 100 MiB",
    ),
    Case("LIM-009", "warn", state("limits", stack=Limit(MIB, 8 * MIB)), "ulimit -s allows 1 MiB"),
    Case(
        "LIM-009", "fail", state("limits", stack=Limit(64 * KIB, 64 * KIB)),
        "ulimit -s allows 64 KiB",
    ),
    Case(
        "LIM-010", "warn", state("limits", address_space=Limit(8 * GIB, 8 * GIB)),
        "ulimit -v allows 8.0 GiB",
    ),
    Case(
        "LIM-010", "warn", state("limits", cpu_seconds=Limit(600, 600)), "ulimit -t allows 600 s"
    ),
    Case(
        "DISK-001", "fail", part("disk", writable=False),
        f"{_ROOT} (ext4): no permission for trainer",
    ),
    Case(
        "DISK-001", "fail",
        part("disk", writable=False, read_only=True, free=0, free_inodes=0),
        f"{_ROOT} (ext4): mounted read-only",
    ),
    Case("DISK-002", "fail", part("disk", noexec=True), f"{_ROOT} (ext4): mounted noexec"),
    Case("DISK-003", "fail", part("disk", free=200 * MIB), f"{_ROOT} (ext4): 200 MiB free"),
    Case("DISK-003", "warn", part("disk", free=3 * GIB), f"{_ROOT} (ext4): 3.0 GiB free"),
    Case("DISK-004", "fail", part("disk", free_inodes=12), f"{_ROOT} (ext4): 12 inodes free"),
    Case(
        "DISK-005", "note", whole(disk=nfs(clean().disk)), f"{_ROOT} (nfs4) from filer:/home"
    ),
    Case("DISK-006", "note", part("disk", filesystem="tmpfs"), f"{_ROOT} (tmpfs)"),
    Case("DISK-007", "note", part("disk", filesystem="overlay"), f"{_ROOT} (overlay)"),
    Case(
        "DISK-009", "fail", part("disk", root="/home/ann/my files/ipexctl"),
        "/home/ann/my files/ipexctl contains a space",
    ),
    Case("DISK-009", "fail", part("disk", real="/data/a:b"), "/data/a:b contains ':'"),
    Case("TMP-001", "fail", part("tmp", writable=False), "/tmp: no permission"),
    Case("TMP-001", "fail", part("tmp", there=False, root="/scratch"), "/scratch: not there"),
    Case(
        "TMP-001", "fail", part("tmp", writable=False, read_only=True, free=0),
        "/tmp: mounted read-only",
    ),
    Case("TMP-002", "warn", part("tmp", free=100 * MIB), "/tmp: 100 MiB free"),
    Case("TMP-003", "note", part("tmp", noexec=True), "/tmp: mounted noexec"),
    Case("HOME-001", "warn", part("home_disk", there=False), "/home/trainer: not there"),
    Case(
        "HOME-001", "warn", part("home_disk", writable=False, read_only=True),
        "/home/trainer: mounted read-only",
    ),
    Case(
        "PY-001", "fail", whole(pythons=()),
        "not in PATH, /usr/bin, /usr/local/bin, /opt/*/bin, ~/.pyenv or conda",
    ),
    Case(
        "PY-001", "fail",
        whole(pythons=(), tried=(("/usr/bin/python3", "Command 'python3' not found"),)),
        "/usr/bin/python3 does not run: Command 'python3' not found",
    ),
    Case(
        "PY-002", "fail", whole(pythons=python(6)),
        f"found /usr/bin/python3 (3.6); {_PYTHONS} have packages",
    ),
    Case(
        "PY-002", "warn", whole(pythons=(replace(*python(11), lacks=("_bz2", "_ssl")),)),
        "/usr/bin/python3 (3.11) lacks _bz2, _ssl",
    ),
    Case(
        "LOAD-001", "warn",
        whole(condition=replace(clean().condition, load=_LOADED)),
        "load 197 on 4 CPUs (15 min: 120.5); other programs use 3.9 CPUs now: stress-ng 3.5, "
        "python3 0.4; some waited for a CPU in 98 % of the last 10 s",
    ),
    Case(
        "LOAD-002", "warn",
        whole(condition=replace(
            clean().condition, load=Load(average=(40.0, 40.0, 40.0), busy=0.1, blocked=39)
        )),
        "39 processes wait, load 40 on 4 CPUs",
    ),
    Case(
        "LOAD-003", "warn", state("load", memory_pressure=35.2),
        "everything waited for memory in 35 % of the last 10 s",
    ),
    Case(
        "LOAD-004", "warn", state("load", runs=(ANN,)),
        "run 20261122-122416-107233 of ann, 2 ranks, 2 cores, for 2 h 5 min",
    ),
    Case(
        "LOAD-004", "warn",
        state("load", runs=(replace(ANN, own=True, name="bert", command="train.py", cpus=None),)),
        "run 20261122-122416-107233 (bert, train.py) of ann, 2 ranks, 2 cores, for 2 h 5 min",
    ),
    Case("SYS-001", "fail", whole(libc="musl 1.2"), "musl 1.2"),
    Case("SYS-002", "fail", whole(libc="glibc 2.12"), "glibc 2.12: no packages"),
    Case("SYS-004", "fail", state("system", bits=32), "32-bit Python, kernel x86_64"),
    Case(
        "SYS-005", "warn", state("system", kill_user_processes=True),
        "KillUserProcesses=yes, no linger",
    ),
    Case("SYS-006", "note", state("system", remove_ipc=True), "RemoveIPC=yes, no linger"),
    Case(
        "SYS-008", "note", whole(kernel="Linux 6.6.87.2-microsoft-standard-WSL2"),
        "Linux 6.6.87.2-microsoft-standard-WSL2",
    ),
    Case("SEC-001", "warn", _address("8.8.4.4"), "8.8.4.4"),
    Case("SEC-001", "note", _address("2600:1f18::2", "10.0.0.1"), "2600:1f18::2"),
    Case(
        "CLOCK-001", "warn", whole(clock=ClockFacts(3600.0, 0.01)),
        "60 min ahead of this machine (±0.010 s)",
    ),
    Case(
        "CLOCK-001", "warn", whole(clock=ClockFacts(-5.0, 1.0)),
        "5.0 s behind this machine (±1.000 s)",
    ),
]  # fmt: skip

# Near a limit, and on its right side.
HARMLESS = {
    "a quota of all CPUs": part("cpu", quota=4.0),
    "just enough memory": part("mem", limit=8 * GIB),
    "all NUMA nodes of the cpuset": both(two_nodes(), part("mem", mems=(0, 1))),
    "just enough disk": part("disk", free=4 * GIB),
    "a Python that lacks a module beside one of its version": whole(
        pythons=(*python(11), replace(*python(11), lacks=("_ssl",)))
    ),
    "an old Python beside a good one": whole(pythons=(*python(6), *python(12))),
    "a clock that may be right": whole(clock=ClockFacts(3.0, 1.5)),
    "a name that means loopback": part("net", hostname_addresses=("127.0.1.1",)),
    "AMX on the kernel of RHEL 9": whole(kernel="Linux 5.14.0-362.8.1.el9_3.x86_64"),
    "AMX on an old kernel that has it nevertheless": both(
        whole(kernel="Linux 5.10.0-28-cloud-amd64"), part("cpu", amx_kernel=True)
    ),
    "AMX on the kernel of SLES 15": whole(kernel="Linux 5.14.21-150500.55.7-default"),
    "second threads switched off": part("cpu", offline=(4, 5, 6, 7)),
    "second threads beside the first ones, switched off": part("cpu", offline=(1, 7), smt="off"),
    "second threads switched off for good": part("cpu", offline=(1, 7), smt="forceoff"),
    "two sockets of a virtual machine": part(
        "cpu",
        cpus=tuple(Cpu(i, i, i // 2, 0) for i in range(4)),
        flags=frozenset((AMX + " hypervisor").split()),
    ),
    "nodes of about the same size": two_nodes(8 * GIB, 7 * GIB),
    "powersave of amd-pstate-epp": state("power", driver="amd-pstate-epp", status="active"),
    "schedutil": state("power", driver="acpi-cpufreq", status="", governors=("schedutil",)),
    "a few per cent below the highest frequency": state("power", max_khz=3_700_000),
    "numa_balancing on one node": state("kernel", numa_balancing=1),
    "much swap, hardly used": part("mem", swap_total=64 * GIB, swap_free=63.5 * GIB),
    "a few huge pages": part("mem", huge=1 * GIB),
    "root with a small nproc": both(whole(uid=0), state("limits", nproc=Limit(3, 3))),
    "a limit on files that no checkpoint reaches": state("limits", file_size=Limit(17 * GIB, 0)),
    "a stack of glibc's threads without a limit": state("limits", stack=Limit(2 * MIB, 0)),
    "KillUserProcesses with linger": state("system", kill_user_processes=True, linger=True),
    "RemoveIPC for root": both(whole(uid=0), state("system", remove_ipc=True)),
    "RemoveIPC without a session": state("system", remove_ipc=True, session=False),
    "glibc 2.28": whole(libc="glibc 2.28"),
    "overcommit at the kernel's default": state("kernel", overcommit=0),
    "SMT": part("cpu", cpus=_SMT),
    "a load that is over": state("load", average=(3.5, 4.0, 2.0), busy=0.1, blocked=0),
    "a load of one CPU in four": state("load", average=(1.9, 1.0, 1.0)),
    "a load on CPUs that are not ours": both(
        part("cpu", cpus=made.cpu(cores=16).cpus, allowed=tuple(range(16))),
        whole(nodes=()),
        state("load", average=(7.9, 8.0, 8.0), busy=7.9),
    ),
    "a run on CPUs that are not ours": state("load", runs=(replace(ANN, cpus=frozenset({9})),)),
    "short of memory for a moment": state("load", memory_pressure=4.0),
    "addresses of carrier-grade NAT": _address("100.64.0.9"),
}
