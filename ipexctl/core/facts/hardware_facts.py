"""The hardware parts of what a host sent: processors, NUMA nodes, memory, disks, interpreters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ipexctl.core.model import Cpu, CpuFacts, DiskFacts, MemFacts, Node, Python
from ipexctl.core.values import MOST, listed, plain, truth, whole


def cpu(raw: Mapping[str, Any], nodes: Iterable[Node]) -> CpuFacts:
    node_of = {cpu: node.id for node in nodes for cpu in node.cpus}
    cpus = []
    for row in listed(raw.get("cpus")):
        if isinstance(row, list) and len(row) == 3 and (number := whole(row[0])) is not None:
            cpus.append(Cpu(number, whole(row[1]), whole(row[2]), node_of.get(number)))
    quota = raw.get("quota")
    return CpuFacts(
        arch=plain(raw.get("arch")),
        vendor=plain(raw.get("vendor")),
        model_name=plain(raw.get("model_name")),
        family=int_of(raw.get("family")),
        model=int_of(raw.get("model")),
        flags=frozenset(plain(raw.get("flags"), 1 << 16).split()),
        cpus=tuple(cpus),
        allowed=_allowed(raw.get("affinity"), cpu_list(raw.get("cpuset"))),
        quota=float(quota) if isinstance(quota, (int, float)) and 0 < quota < MOST else None,
        stepping=int_of(raw.get("stepping")),
        microcode=plain(raw.get("microcode"), 40),
        offline=_numbers(raw.get("offline")),
        smt=plain(raw.get("smt"), 40),
        isolated=cpu_list(raw.get("isolated")),
        efficient=_numbers(raw.get("efficient")),
    )


def _allowed(affinity: Any, cpuset: tuple[int, ...]) -> tuple[int, ...] | None:
    """The kernel's answer already honours the cpuset; a recorded machine has only the cpuset."""
    own = _numbers(affinity)
    if own and cpuset:
        both = set(cpuset)
        return tuple(n for n in own if n in both) or own
    return own or cpuset or None


def contradictory(raw: Any, found: tuple[Node, ...]) -> bool:
    return bool(listed(raw)) and not found


def nodes(raw: Any) -> tuple[Node, ...]:
    """Numbers that contradict themselves (a CPU in two nodes) are no use: then none at all.

    Nor are more CPUs than there can be: few words can name so many that they fill our memory.
    """
    found, seen = [], set[int]()
    for row in listed(raw):
        if not isinstance(row, list) or len(row) != 4 or (number := whole(row[0])) is None:
            return ()
        cpus = cpu_list(row[1])
        if seen & set(cpus) or len(seen) + len(cpus) > MOST:
            return ()
        seen |= set(cpus)
        found.append(Node(number, cpus, whole(row[2]), whole(row[3])))
    return tuple(found)


def mem(raw: Mapping[str, Any]) -> MemFacts:
    return MemFacts(
        total=whole(raw.get("total")),
        available=whole(raw.get("available")),
        swap_total=whole(raw.get("swap_total")),
        shm_total=whole(raw.get("shm_total")),
        shm_free=whole(raw.get("shm_free")),
        limit=whole(raw.get("limit")),
        swap_free=whole(raw.get("swap_free")),
        commit_limit=whole(raw.get("commit_limit")),
        committed=whole(raw.get("committed")),
        huge=whole(raw.get("huge")),
        shm_there=truth(raw.get("shm_there")),
        shm_writable=truth(raw.get("shm_writable")),
        shm_noexec=truth(raw.get("shm_noexec")),
    )


def disk(raw: Mapping[str, Any]) -> DiskFacts:
    return DiskFacts(
        root=plain(raw.get("root")),
        real=plain(raw.get("real")),
        free=whole(raw.get("free")),
        free_inodes=whole(raw.get("free_inodes")),
        filesystem=plain(raw.get("filesystem")),
        noexec=truth(raw.get("noexec")),
        writable=truth(raw.get("writable")),
        there=truth(raw.get("exists")),
        total=whole(raw.get("total")),
        source=plain(raw.get("source")),
        point=plain(raw.get("point")),
        quota=truth(raw.get("quota")),
    )


def python(raw: Any) -> Python | None:
    if not isinstance(raw, Mapping):
        return None
    version = tuple(n for n in map(whole, listed(raw.get("version"))) if n is not None)
    path = plain(raw.get("path"))
    if not path.startswith("/") or not 2 <= len(version) <= 3:
        return None
    return Python(path, version, truth(raw.get("venv")))


# --- numbers in texts ----------------------------------------------------------------------------


def cpu_list(text: Any) -> tuple[int, ...]:
    """0-3,8 -> (0, 1, 2, 3, 8). What is no such list gives ()."""
    found: list[int] = []
    for part in plain(text, 1 << 16).split(","):
        first, _, last = part.strip().partition("-")
        low, high = int_of(first), int_of(last or first)
        if low is None or high is None or high - low > MOST or len(found) > MOST:
            return ()
        found.extend(range(low, high + 1))
    return tuple(found)


def int_of(text: Any) -> int | None:
    if isinstance(text, int):
        return whole(text)
    text = plain(text, 40)
    try:
        return whole(int(text, 16 if text.startswith("0x") else 10))
    except ValueError:
        return None


def _numbers(raw: Any) -> tuple[int, ...]:
    return tuple(n for n in map(whole, listed(raw)) if n is not None)
