"""Machines written as /proc and /sys trees of our own, small enough to read as a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

V2 = "fpu sse sse2 ssse3 sse4_1 sse4_2 cx16 popcnt"  # x86-64-v2
AVX2 = V2 + " avx avx2 fma f16c bmi1 bmi2"
AVX512 = AVX2 + " avx512f avx512dq avx512bw avx512vl avx512cd avx512_vnni"
AMX = AVX512 + " avx512_bf16 amx_bf16 amx_tile amx_int8"


def _usual(machine: Machine, socket: int, cpus: tuple[int, ...]) -> dict[str, str]:
    return {
        "thread_siblings_list": ",".join(map(str, cpus)),
        "physical_package_id": str(socket),
    }


@dataclass(frozen=True)
class Machine:
    """`cores` lists each core as (socket, its CPUs). `nodes` maps a NUMA node to its CPU list."""

    cores: tuple[tuple[int, tuple[int, ...]], ...]
    nodes: dict[int, str] = field(default_factory=dict)
    flags: str = AMX
    online: str = ""
    name: str = "Made Processor 8480+"
    memory: int = 512 << 20  # KiB
    arm: bool = False
    topology: bool = True
    describe: Callable[[Machine, int, tuple[int, ...]], dict[str, str]] = _usual  # one CPU's files
    files: dict[str, str] = field(default_factory=dict)  # further ones, by path
    node_memory: dict[int, int] = field(default_factory=dict)  # KiB; 1 MiB where not told
    ids: tuple[str, int, int, int] = ("GenuineIntel", 6, 143, 8)  # vendor, family, model, stepping

    def write(self, root: Path) -> Path:
        online = [cpu for _, cpus in self.cores for cpu in cpus]
        self._put(root, "proc/cpuinfo", "\n".join(map(self._cpuinfo, sorted(online))))
        memory = f"MemTotal: {self.memory} kB\nMemAvailable: {self.memory // 2} kB\n"
        self._put(root, "proc/meminfo", memory)
        base = "sys/devices/system"
        listed = self.online or ",".join(map(str, sorted(online)))
        self._put(root, f"{base}/cpu/online", listed)
        for socket, cpus in self.cores if self.topology else ():
            for cpu in cpus:
                top = f"{base}/cpu/cpu{cpu}/topology"
                for name, text in self.describe(self, socket, cpus).items():
                    self._put(root, f"{top}/{name}", text)
        for node, cpulist in self.nodes.items():
            size = self.node_memory.get(node, 1024)
            self._put(root, f"{base}/node/node{node}/cpulist", cpulist)
            self._put(root, f"{base}/node/node{node}/meminfo", f"Node {node} MemTotal: {size} kB\n")
        for path, text in self.files.items():
            self._put(root, path, text)
        return root

    def _cpuinfo(self, cpu: int) -> str:
        socket, cpus = next(core for core in self.cores if cpu in core[1])
        if self.arm:
            part = f"CPU architecture: 8\nCPU part\t: {self.ids[2]:#x}\n"
            features = f"Features\t: {self.flags}\nCPU implementer\t: {self.ids[0]}\n"
            return f"processor\t: {cpu}\n{features}{part}"
        vendor, family, model, stepping = self.ids
        return (
            f"processor\t: {cpu}\nvendor_id\t: {vendor}\ncpu family\t: {family}\n"
            f"model\t\t: {model}\nstepping\t: {stepping}\nmicrocode\t: 0x1\n"
            f"model name\t: {self.name}\nphysical id\t: {socket}\ncore id\t\t: {cpus[0]}\n"
            f"flags\t\t: {self.flags}\n"
        )

    @staticmethod
    def _put(root: Path, path: str, text: str) -> None:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n" * (not text.endswith("\n")))


def regular(sockets: int, cores: int, threads: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """As Linux numbers them: the first thread of every core first, then the second ones."""
    total = sockets * cores
    return tuple((i // cores, tuple(range(i, total * threads, total))) for i in range(total))


_CGROUP2 = {
    "proc/self/cgroup": "0::/job/step\n",
    "proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
    "sys/fs/cgroup/job/cpuset.cpus.effective": "0-3",
    "sys/fs/cgroup/job/cpu.max": "150000 100000",
    "sys/fs/cgroup/job/step/cpu.max": "max 100000",
    "sys/fs/cgroup/job/memory.max": "1073741824",
    "sys/fs/cgroup/job/step/memory.max": "max",
    "sys/fs/cgroup/job/memory.current": "1000000000",
    "sys/fs/cgroup/job/memory.stat": "anon 1\ninactive_file 500000000\nactive_file 7",
    "sys/fs/cgroup/job/cpuset.mems.effective": "0,2-3",
}
_CGROUP1 = {
    "proc/self/cgroup": "4:cpuset:/batch\n3:cpu,cpuacct:/batch\n2:memory:/batch\n",
    "proc/mounts": "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n"
    "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n"
    "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n",
    "sys/fs/cgroup/cpuset/batch/cpuset.cpus": "2,6-7",
    "sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_quota_us": "-1",
    "sys/fs/cgroup/cpuset/batch/cpuset.mems": "1",
    "sys/fs/cgroup/memory/batch/memory.limit_in_bytes": "9223372036854771712",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "4294967296",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "1073741824",
    "sys/fs/cgroup/memory/memory.stat": "inactive_file 3\ntotal_inactive_file 1073741824",
}

_QUOTA2 = {
    "proc/self/cgroup": "0::/job/step\n",
    "proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
    "sys/fs/cgroup/job/cpu.max": "50000 20000",  # 2.5 CPUs
    "sys/fs/cgroup/job/step/cpu.max": "300000 50000",  # looser than its parent: no use
    "sys/fs/cgroup/job/memory.high": "2147483648",
    "sys/fs/cgroup/job/memory.max": "4294967296",
    "proc/self/status": "Name:\tpython3\nMems_allowed:\t3\nMems_allowed_list:\t0-1\n",
}
_BATCH = "sys/fs/cgroup/cpu,cpuacct/batch"
_QUOTA1 = _CGROUP1 | {
    "proc/self/cgroup": "3:cpu,cpuacct:/batch/step\n",
    f"{_BATCH}/cpu.cfs_quota_us": "50000",
    f"{_BATCH}/cpu.cfs_period_us": "20000",
    f"{_BATCH}/step/cpu.cfs_quota_us": "300000",
    f"{_BATCH}/step/cpu.cfs_period_us": "50000",
}

MACHINES: dict[str, Machine] = {
    "two sockets with SMT": Machine(regular(2, 56, 2), {0: "0-55,112-167", 1: "56-111,168-223"}),
    "sub-NUMA clusters and nodes of memory alone": Machine(
        regular(2, 56, 2),
        {n: f"{14 * n}-{14 * n + 13},{112 + 14 * n}-{125 + 14 * n}" for n in range(8)}
        | dict.fromkeys(range(8, 16), ""),
    ),
    "performance and efficiency cores": Machine(
        (*((0, (2 * i, 2 * i + 1)) for i in range(6)), *((0, (12 + i,)) for i in range(8))),
        {0: "0-19"},
        flags=AVX2,
    ),
    "offline CPUs": Machine(
        tuple(c for c in regular(2, 4, 1) if c[1][0] not in (3, 6)), online="0-2,4-5,7"
    ),
    "cgroup v2": Machine(regular(1, 8, 1), files=_CGROUP2),
    "cgroup v1": Machine(regular(1, 8, 1), files=_CGROUP1),
    "cgroup v2, other periods": Machine(regular(1, 8, 1), files=_QUOTA2),
    "cgroup v1, other periods": Machine(regular(1, 8, 1), files=_QUOTA1),
    "no topology in sysfs": Machine(regular(1, 4, 2), flags=AVX512, topology=False),
    "arm": Machine(
        regular(1, 4, 1),
        flags="fp asimd sve svebf16",
        arm=True,
        ids=("0x41", 8, 0xD40, 1),
    ),
    "nodes that contradict themselves": Machine(regular(2, 2, 1), {0: "0-2", 1: "2-3"}),
}
