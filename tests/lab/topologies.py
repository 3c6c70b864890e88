"""The CPUs of this machine, grouped into other sockets, NUMA nodes and cores for a lab host.

A host never shows more processors than this machine runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CPUS, NODES = "/sys/devices/system/cpu", "/sys/devices/system/node"


@dataclass(frozen=True)
class Place:
    """Where one CPU sits."""

    cpu: int
    socket: int
    core: int
    node: int


def covers(folder: Path, places: tuple[Place, ...]) -> tuple[tuple[str, str], ...]:
    """Write what such a host shows; returns the `covers` of its HostSpec."""
    written = {
        "/proc/cpuinfo": {"": cpuinfo(Path("/proc/cpuinfo").read_text(), places)},
        CPUS: dict(_cpu_files(places)),
        NODES: dict(_node_files(places)),
    }
    for target, files in written.items():
        for name, text in files.items():
            path = folder / target.strip("/").replace("/", "_") / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return tuple((path, str(folder / path.strip("/").replace("/", "_"))) for path in written)


def layout(cpus: tuple[int, ...], *, sockets: int = 1, smt: int = 1) -> tuple[Place, ...]:
    """Cores are filled socket by socket; second threads follow all first ones, as on Xeons. Each
    socket is a NUMA node."""
    cores = len(cpus) // smt
    each = cores // sockets
    assert cpus and each and sockets * each * smt == len(cpus)
    return tuple(
        Place(cpu, i % cores // each, i % cores % each, i % cores // each)
        for i, cpu in enumerate(cpus)
    )


def cpuinfo(real: str, places: tuple[Place, ...]) -> str:
    by_cpu = {p.cpu: p for p in places}
    blocks = []
    for block in real.strip().split("\n\n"):
        lines = {line.partition(":")[0].strip(): line for line in block.splitlines()}
        if number := re.search(r"^processor\s*:\s*(\d+)", block, re.M):
            place = by_cpu[int(number[1])]
            same = [p for p in places if p.socket == place.socket]
            lines["physical id"] = f"physical id\t: {place.socket}"
            lines["siblings"] = f"siblings\t: {len(same)}"
            lines["core id"] = f"core id\t\t: {place.core}"
            lines["cpu cores"] = f"cpu cores\t: {len({p.core for p in same})}"
        blocks.append("".join(f"{line}\n" for line in lines.values()))
    return "\n".join(blocks) + "\n"


def _cpu_files(places: tuple[Place, ...]) -> Iterator[tuple[str, str]]:
    cpus = [p.cpu for p in places]
    for name in ("online", "possible", "present"):
        yield name, _list(cpus)
    threads = sum((p.socket, p.core) == (places[0].socket, places[0].core) for p in places)
    yield "offline", "\n"
    yield "smt/active", f"{int(threads > 1)}\n"
    for place in places:
        top = f"cpu{place.cpu}/topology"
        core = [p.cpu for p in places if (p.socket, p.core) == (place.socket, place.core)]
        socket = [p.cpu for p in places if p.socket == place.socket]
        yield f"{top}/physical_package_id", f"{place.socket}\n"
        yield f"{top}/core_id", f"{place.core}\n"
        for names, members in (
            (("thread_siblings", "core_cpus"), core),
            (("core_siblings", "package_cpus"), socket),
        ):
            for name in names:
                yield f"{top}/{name}_list", _list(members)
                yield f"{top}/{name}", _mask(members)


def _node_files(places: tuple[Place, ...]) -> Iterator[tuple[str, str]]:
    nodes = sorted({p.node for p in places})
    for name in ("online", "possible", "has_cpu", "has_memory"):
        yield name, _list(nodes)
    for node in nodes:
        cpus = [p.cpu for p in places if p.node == node]
        yield f"node{node}/cpulist", _list(cpus)
        yield f"node{node}/cpumap", _mask(cpus)
        yield f"node{node}/distance", " ".join("10" if n == node else "21" for n in nodes) + "\n"
        yield f"node{node}/meminfo", f"Node {node} MemTotal: {4 << 20} kB\n"


def _list(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(numbers))) + "\n"


def _mask(numbers: Iterable[int]) -> str:
    """Hexadecimal words of 32 bits, the highest first."""
    value = sum(1 << n for n in numbers)
    words = value.bit_length() // 32 + 1
    return ",".join(f"{value >> 32 * i & 0xFFFFFFFF:08x}" for i in reversed(range(words))) + "\n"
