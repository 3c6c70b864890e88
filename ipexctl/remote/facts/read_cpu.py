"""Read the processors and NUMA nodes of this host from /proc and /sys below a folder `fs`.

As little is read as will do: the first CPU's part of /proc/cpuinfo (a kernel writes that file one
CPU at a time), then sysfs.
"""

import errno
import os
import sys

from ipexctl.common.processes import fields_of
from ipexctl.common.tolerant_reads import names_in, read_text
from ipexctl.remote.facts.probe_values import CPUS, expand_cpu_list, kib_to_bytes, parse_number

MYPY = False  # importing typing would cost a host more than the rest of this module
if MYPY:
    from typing import Any

    CpuRow = list[Any]  # the CPU, the lowest CPU of its core, its socket; None: unknown
    NodeRow = list[Any]  # the node, its CPUs, bytes in all, bytes free


def read_cpu(
    fs: str, groups: "dict[str, Any]", live: bool, nodes: "list[NodeRow]"
) -> "dict[str, Any]":
    info = fs + "/proc/cpuinfo"
    first = fields_of(read_text(info, until=b"\n\n").partition("\n\n")[0])
    base = fs + "/sys/devices/system/cpu"
    online, offline = _online_cpus(base)
    cpus = _sysfs_cpus(base, online, _has_units(first))
    if not cpus or any(None in row for row in cpus):
        cpus = _complete_from_cpuinfo(cpus, _cpuinfo_cpus(read_text(info)))
    node_of = {cpu: row[0] for row in nodes for cpu in row[1]}
    return {
        "arch": os.uname().machine if live else _recorded_arch(first),
        "vendor": first.get("vendor_id") or first.get("CPU implementer", ""),
        "model_name": first.get("model name") or first.get("Processor", ""),
        "family": parse_number(first.get("cpu family") or first.get("CPU architecture")),
        "model": parse_number(first.get("model") or first.get("CPU part")),
        "stepping": parse_number(first.get("stepping")),
        "microcode": first.get("microcode", ""),
        "flags": (first.get("flags") or first.get("Features", "")).split(),
        "cpus": [row + [node_of.get(row[0])] for row in cpus],
        "offline": offline,
        "smt": read_text(base + "/smt/control").strip(),
        "efficient": _efficient_cpus(fs, base, cpus),
        "simulated": _is_covered(fs, "/proc/cpuinfo"),
        "amx_kernel": amx_kernel() if live and "amx_tile" in (first.get("flags") or "") else None,
        "allowed": _allowed_cpus(groups["cpuset"], live),
        "quota": groups["quota"],
    }


def _allowed_cpus(cpuset: "list[int]", live: bool) -> "list[int] | None":
    """Return the CPUs that may be used. The live kernel's answer includes the cpuset already."""
    if not live:
        return cpuset or None
    affinity = sorted(os.sched_getaffinity(0))
    return [cpu for cpu in affinity if cpu in cpuset] or affinity


def _is_covered(fs: str, path: str) -> bool:
    """Decide whether another file, other than that of lxcfs, is mounted over this one."""
    for line in read_text(fs + "/proc/self/mountinfo").splitlines():
        place, _, kind = line.partition(" - ")
        if place.split()[4:5] == [path] and not kind.startswith("fuse"):
            return True
    return False


def amx_kernel() -> "bool | None":
    """Return whether the kernel grants AMX to programs that ask; None if that is unknown."""
    if os.uname().machine != "x86_64" or sys.maxsize < 1 << 32:
        return None
    try:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        bits = ctypes.c_ulong(0)
        arch_prctl, get_xcomp_supp = ctypes.c_long(158), ctypes.c_long(0x1021)
        if libc.syscall(arch_prctl, get_xcomp_supp, ctypes.byref(bits)) == 0:
            return True if bits.value >> 18 & 1 else None  # the flags are not this kernel's
        return False if ctypes.get_errno() == errno.EINVAL else None  # else: a filter refuses it
    except Exception:
        return None  # no libffi


def _recorded_arch(first: "dict[str, str]") -> str:
    return "aarch64" if "CPU implementer" in first else "x86_64"


def _has_units(first: "dict[str, str]") -> bool:
    """Decide whether cores share units in pairs (AMD family 21); kernels call them siblings."""
    return (first.get("vendor_id"), first.get("cpu family")) == ("AuthenticAMD", "21")


def _sysfs_cpus(base: str, online: "list[int]", units: bool) -> "list[CpuRow]":
    """Return [[cpu, lowest CPU of its core, socket]] of online CPUs; None: not in sysfs."""
    rows = []
    cores = {}  # type: dict[object, int]
    for cpu in online:
        topology = "%s/cpu%d/topology/" % (base, cpu)
        socket_id = _read_id(topology + "physical_package_id")
        if socket_id is None:
            socket_id = _lowest_cpu_of_group(topology, "core_siblings", "package_cpus")
        core = cpu if units else _lowest_cpu_of_group(topology, "thread_siblings", "core_cpus")
        core_id = _read_id(topology + "core_id") if core is None else None
        if core_id is not None and socket_id is not None:  # core ids repeat per socket and die
            core = cores.setdefault((socket_id, _read_id(topology + "die_id"), core_id), cpu)
        rows.append([cpu, core, socket_id])
    return rows


def _read_id(path: str) -> "int | None":
    """Read an id. Kernels write -1 for an unknown one."""
    number = parse_number(read_text(path))
    return None if number is None or number < 0 else number


def _complete_from_cpuinfo(cpus: "list[CpuRow]", reported: "list[CpuRow]") -> "list[CpuRow]":
    """Fill in from /proc/cpuinfo what sysfs does not have."""
    if not cpus:
        return reported
    rows = {row[0]: row for row in reported}
    completed = []
    for cpu, core, socket_id in cpus:
        _, other_core, other_socket = rows.get(cpu, (cpu, None, None))
        core = other_core if core is None else core
        completed.append([cpu, core, other_socket if socket_id is None else socket_id])
    return completed


def _online_cpus(base: str) -> "tuple[list[int], list[int]]":
    """Return (CPUs that are online, CPUs that are present but offline)."""
    text = read_text(base + "/online")
    if text:
        online = expand_cpu_list(text)
        return online, sorted(set(expand_cpu_list(read_text(base + "/present"))) - set(online))
    cpus = sorted(int(n[3:]) for n in names_in(base) if n.startswith("cpu") and n[3:].isdigit())
    online = [cpu for cpu in cpus if os.path.isdir("%s/cpu%d/topology" % (base, cpu))]
    return online, [cpu for cpu in cpus if cpu not in set(online)]


def _efficient_cpus(fs: str, base: str, cpus: "list[CpuRow]") -> "list[int]":
    """Return the CPUs of a hybrid processor's slower cores; [] if all cores are alike."""
    text = read_text(fs + "/sys/devices/cpu_atom/cpus")
    if text:
        return expand_cpu_list(text)
    first = "%s/cpu%d/" % (base, cpus[0][0] if cpus else 0)
    threads = {}  # type: dict[object, int]
    for _, core, _ in cpus:
        threads[core] = threads.get(core, 0) + 1
    if read_text(first + "cpu_capacity"):
        path = base + "/cpu%d/cpu_capacity"
    elif len(set(threads.values())) > 1:  # some cores have one thread, some two
        path = base + "/cpufreq/policy%d/cpuinfo_max_freq"
    else:
        return []
    speed = {row[0]: parse_number(read_text(path % row[0])) or 0 for row in cpus}
    highest = max(speed.values())
    return [cpu for cpu, frequency in sorted(speed.items()) if 0 < frequency <= 0.85 * highest]


def _lowest_cpu_of_group(top: str, *files: str) -> "int | None":
    """Return the lowest CPU of a group: unique on the host. Kernels have the file under an old or a
    new name or both, and write it as a list, as a mask or both."""
    for name in files:
        text = read_text(top + name + "_list").strip() or _from_mask(read_text(top + name))
        if text:
            return parse_number(text.partition(",")[0].partition("-")[0])
    return None


def _cpuinfo_cpus(text: str) -> "list[CpuRow]":
    """Read the topology from /proc/cpuinfo, for kernels without one in sysfs."""
    rows = []
    cores = {}  # type: dict[object, int]
    for part in text.split("\n\n"):
        row = fields_of(part)
        cpu, socket_id = parse_number(row.get("processor")), parse_number(row.get("physical id"))
        core = parse_number(row.get("core id"))
        if cpu is None:
            continue
        if core is not None:
            core = cores.setdefault((socket_id, core), cpu)
        rows.append([cpu, core, socket_id])
    return rows[:CPUS]


def read_numa_nodes(fs: str) -> "tuple[list[NodeRow], bool]":
    """Return ([[node, its CPUs, bytes in all, bytes free]], whether they contradict each other).

    A node may have memory and no CPU. If nodes share a CPU, none is returned.
    """
    base = fs + "/sys/devices/system/node"
    nodes = []  # type: list[NodeRow]
    folders = [n for n in names_in(base) if n.startswith("node") and n[4:].isdigit()]
    for name in sorted(folders, key=lambda n: int(n[4:])):
        where = base + "/" + name
        cpus = expand_cpu_list(
            read_text(where + "/cpulist") or _from_mask(read_text(where + "/cpumap"))
        )
        mem = {}  # type: dict[str, int | None]
        for line in read_text(where + "/meminfo").splitlines():
            words = line.split()
            if len(words) >= 4:
                mem[words[2]] = parse_number(words[3])
        nodes.append(
            [
                int(name[4:]),
                cpus,
                kib_to_bytes(mem.get("MemTotal:")),
                kib_to_bytes(mem.get("MemFree:")),
            ]
        )
    cpus_of_all = [cpu for row in nodes for cpu in row[1]]
    return ([], True) if len(cpus_of_all) > len(set(cpus_of_all)) else (nodes, False)


def _from_mask(text: str) -> str:
    try:
        mask = int(text.strip().replace(",", ""), 16)
    except ValueError:
        return ""
    return ",".join(str(i) for i in range(mask.bit_length()) if mask >> i & 1)
