"""Made /proc/cpuinfo and /sys/devices/system trees for hosts with another shape.

CPUs are only regrouped: a host never shows more processors than this machine runs. Pure, but
for `read_machine` and `write` at the end.
"""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path

from ipexctl.errors import InputError
from ipexctl.lab.cluster.lab_spec import HostSpec
from ipexctl.quick_dataclass import dataclass

_SSE = (
    "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse"
    " sse2 ss ht syscall nx pdpe1gb rdtscp lm constant_tsc rep_good nopl xtopology nonstop_tsc"
    " cpuid pni pclmulqdq ssse3 cx16 pcid sse4_1 sse4_2 popcnt aes hypervisor lahf_lm"
)
_AVX2 = f"{_SSE} x2apic movbe xsave avx f16c rdrand abm fma fsgsbase bmi1 avx2 smep bmi2 erms"
_AVX512 = (
    f"{_AVX2} avx512f avx512dq rdseed adx clflushopt clwb avx512cd avx512bw avx512vl xsaveopt"
    " xsavec xgetbv1 avx512_vnni"
)
_BF16 = f"{_AVX512} avx512_bf16"
_AMX = (
    f"{_BF16} avx_vnni avx512vbmi umip avx512_vbmi2 gfni vaes vpclmulqdq avx512_bitalg"
    " avx512_vpopcntdq amx_bf16 avx512_fp16 amx_tile amx_int8"
)

# isa -> model name, model, stepping, flags; all are Intel family 6
_MODELS = {
    "sse": ("Intel(R) Xeon(R) CPU           X5650  @ 2.67GHz", 44, 2, _SSE),
    "avx2": ("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", 79, 1, _AVX2),
    "avx512": ("Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", 85, 7, _AVX512),
    "avx512-bf16": ("Intel(R) Xeon(R) Platinum 8380H CPU @ 2.90GHz", 85, 11, _BF16),
    "amx": ("Intel(R) Xeon(R) Platinum 8480+", 143, 8, _AMX),
}


@dataclass(frozen=True)
class Place:
    """Where one CPU sits."""

    cpu: int
    socket: int
    core: int
    node: int


@dataclass(frozen=True)
class Machine:
    """What this machine really has."""

    arch: str
    cpus: tuple[int, ...]
    cpuinfo: str
    memory_kb: int
    caches: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Tree:
    """Texts and links by path inside a folder; one text at "" is a plain file."""

    files: Mapping[str, str]
    links: Mapping[str, str] = field(default_factory=dict)


def covers(spec: HostSpec, machine: Machine) -> dict[str, Tree]:
    """What to lay over which path of the host; InputError when the CPUs do not suffice."""
    regrouped = bool(spec.sockets or spec.numa or spec.smt)
    if not regrouped and not spec.isa:
        return {}
    if spec.isa and machine.arch != "x86_64":
        raise InputError(
            f"{spec.name}: isa={spec.isa} needs an x86_64 machine", slug="isa-needs-x86"
        )
    places = layout(spec, machine.cpus) if regrouped else ()
    made = {"/proc/cpuinfo": Tree({"": cpuinfo(machine.cpuinfo, spec.isa, places)})}
    if regrouped:
        made["/sys/devices/system/cpu"] = _cpu_tree(places, machine.caches)
        made["/sys/devices/system/node"] = _node_tree(places, machine.memory_kb)
    return made


def layout(spec: HostSpec, cpus: tuple[int, ...]) -> tuple[Place, ...]:
    """Cores are filled socket by socket; second threads follow all first ones, as on Xeons."""
    sockets, smt = spec.sockets or 1, spec.smt or 1
    nodes = spec.numa or sockets
    cores = len(cpus) // smt
    if len(cpus) % smt or cores % sockets or cores % nodes or nodes % sockets or not cores:
        raise InputError(
            f"{spec.name}: {sockets} sockets, {nodes} NUMA nodes and {smt} threads per core"
            f" cannot be made from {len(cpus)} CPUs",
            why="a lab only regroups the CPUs that this machine has",
            hint=f"choose counts whose product divides {len(cpus)}",
            slug="lab-topology-impossible",
        )
    each, in_node = cores // sockets, cores // nodes
    return tuple(
        Place(cpu, i % cores // each, i % cores % each, i % cores // in_node)
        for i, cpu in enumerate(cpus)
    )


def cpuinfo(real: str, isa: str, places: Iterable[Place]) -> str:
    """The real text with other flags, model and places; the processors stay the same."""
    by_cpu = {p.cpu: p for p in places}
    blocks = []
    for block in real.strip().split("\n\n"):
        lines = dict(_key_line(line) for line in block.splitlines())
        number = re.search(r"^processor\s*:\s*(\d+)", block, re.M)
        if number:
            lines.update(_grouped(by_cpu, int(number[1])))
            lines.update(_model(isa))
        if isa:
            lines.pop("bugs", None)
        blocks.append("".join(f"{line}\n" for line in lines.values()))
    return "\n".join(blocks) + "\n"


def _key_line(line: str) -> tuple[str, str]:
    return line.partition(":")[0].strip(), line


def _grouped(by_cpu: Mapping[int, Place], cpu: int) -> dict[str, str]:
    place = by_cpu.get(cpu)
    if place is None:
        return {}
    same = [p for p in by_cpu.values() if p.socket == place.socket]
    return {
        "physical id": f"physical id\t: {place.socket}",
        "siblings": f"siblings\t: {len(same)}",
        "core id": f"core id\t\t: {place.core}",
        "cpu cores": f"cpu cores\t: {len({p.core for p in same})}",
    }


def _model(isa: str) -> dict[str, str]:
    if not isa:
        return {}
    name, model, stepping, flags = _MODELS[isa]
    return {
        "vendor_id": "vendor_id\t: GenuineIntel",
        "cpu family": "cpu family\t: 6",
        "model": f"model\t\t: {model}",
        "model name": f"model name\t: {name}",
        "stepping": f"stepping\t: {stepping}",
        "flags": f"flags\t\t: {flags}",
    }


def _cpu_tree(places: tuple[Place, ...], caches: Mapping[str, Mapping[str, str]]) -> Tree:
    cpus = [p.cpu for p in places]
    threads = len(_core(places, places[0]))
    files = {name: f"{_list(cpus)}\n" for name in ("online", "possible", "present")}
    files |= {"offline": "\n", "isolated": "\n", "kernel_max": "8191\n"}
    files |= {"smt/active": f"{int(threads > 1)}\n", "smt/control": "on\n"}
    links = {}
    for place in places:
        top = f"cpu{place.cpu}"
        links[f"{top}/node{place.node}"] = f"../../node/node{place.node}"
        files[f"{top}/topology/physical_package_id"] = f"{place.socket}\n"
        files[f"{top}/topology/core_id"] = f"{place.core}\n"
        files[f"{top}/topology/die_id"] = "0\n"
        for name, members in _groups(places, place).items():
            files[f"{top}/topology/{name}_list"] = f"{_list(members)}\n"
            files[f"{top}/topology/{name}"] = f"{_mask(members, cpus)}\n"
        if place.cpu:
            files[f"{top}/online"] = "1\n"
        files |= _cache_files(top, caches, places, place)
    return Tree(files, links)


def _groups(places: tuple[Place, ...], place: Place) -> dict[str, list[int]]:
    core, package = _core(places, place), [p.cpu for p in places if p.socket == place.socket]
    names = {"thread_siblings": core, "core_cpus": core, "core_siblings": package}
    return names | {"package_cpus": package, "die_cpus": package}


def _core(places: tuple[Place, ...], place: Place) -> list[int]:
    return [p.cpu for p in places if (p.socket, p.core) == (place.socket, place.core)]


def _cache_files(
    top: str, caches: Mapping[str, Mapping[str, str]], places: tuple[Place, ...], place: Place
) -> dict[str, str]:
    """The real caches; up to level 2 a core's own, above that its socket's."""
    groups = _groups(places, place)
    files: dict[str, str] = {}
    for index, texts in caches.items():
        private = texts.get("level", "1").strip() in ("1", "2")
        members = groups["core_cpus" if private else "package_cpus"]
        shared = {
            "shared_cpu_list": f"{_list(members)}\n",
            "shared_cpu_map": f"{_mask(members, [p.cpu for p in places])}\n",
        }
        files |= {f"{top}/cache/{index}/{k}": v for k, v in {**texts, **shared}.items()}
    return files


def _node_tree(places: tuple[Place, ...], memory_kb: int) -> Tree:
    nodes = sorted({p.node for p in places})
    names = ("online", "possible", "has_cpu", "has_memory", "has_normal_memory")
    files = {name: f"{_list(nodes)}\n" for name in names}
    links: dict[str, str] = {}
    for node in nodes:
        cpus = [p.cpu for p in places if p.node == node]
        top = f"node{node}"
        files[f"{top}/cpulist"] = f"{_list(cpus)}\n"
        files[f"{top}/cpumap"] = f"{_mask(cpus, [p.cpu for p in places])}\n"
        files[f"{top}/distance"] = " ".join("10" if n == node else "21" for n in nodes) + "\n"
        kb = memory_kb // len(nodes)
        files[f"{top}/meminfo"] = "".join(
            f"Node {node} {key + ':':<15} {value:>8} kB\n"
            for key, value in (("MemTotal", kb), ("MemFree", kb // 2), ("MemUsed", kb - kb // 2))
        )
        links |= {f"{top}/cpu{cpu}": f"../../cpu/cpu{cpu}" for cpu in cpus}
    return Tree(files, links)


def _list(numbers: Iterable[int]) -> str:
    """0-3,8 as the kernel writes it."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a}-{b}" if a != b else f"{a}" for a, b in runs)


def _mask(numbers: Iterable[int], every: Iterable[int]) -> str:
    """Hexadecimal words of 32 bits, the highest first."""
    value = sum(1 << n for n in numbers)
    words = max(every) // 32 + 1
    width = 8 if words > 1 else max(1, (max(every) + 4) // 4)
    parts = [f"{value >> 32 * i & 0xFFFFFFFF:0{width}x}" for i in reversed(range(words))]
    return ",".join(parts)


def read_machine() -> Machine:
    """This machine as it is."""
    text = Path("/proc/cpuinfo").read_text()
    total = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    cpus = tuple(map(int, re.findall(r"^processor\s*:\s*(\d+)", text, re.M))) or (0,)
    caches = Path(f"/sys/devices/system/cpu/cpu{cpus[0]}/cache")
    return Machine(
        arch=platform.machine(),
        cpus=cpus,
        cpuinfo=text,
        memory_kb=int(total[1]) if total else 0,
        caches={folder.name: _texts(folder) for folder in sorted(caches.glob("index*"))},
    )


def _texts(folder: Path) -> dict[str, str]:
    names = ["level", "type", "size", "coherency_line_size", "number_of_sets", "id"]
    names += ["ways_of_associativity", "physical_line_partition"]
    return {n: (folder / n).read_text() for n in names if (folder / n).is_file()}


def write(folder: Path, wanted: Mapping[str, Tree]) -> dict[str, Path]:
    """Write every tree below `folder`; returns path on the host -> file or folder here."""
    shutil.rmtree(folder, ignore_errors=True)
    written = {}
    for target, tree in wanted.items():
        top = written[target] = folder / target.strip("/").replace("/", "_")
        for name, content in tree.files.items():
            path = top / name if name else top
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            path.chmod(0o444)
        for name, link in tree.links.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).symlink_to(link)
    return written
