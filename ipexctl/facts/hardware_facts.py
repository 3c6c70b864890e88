"""The hardware parts of what a host sent: processors, NUMA nodes, memory, disks, interpreters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ipexctl.base.values import MOST, count_or_none, listed, plain, record, truth
from ipexctl.facts.facts import Cpu, CpuFacts, DiskFacts, MemFacts, Node, Python


def cpu(raw: Mapping[str, Any], nodes: Iterable[Node]) -> CpuFacts:
    node_of = {cpu: node.id for node in nodes for cpu in node.cpus}
    cpus = []
    for row in listed(raw.get("cpus")):
        if (
            isinstance(row, list)
            and len(row) == 3
            and (number := count_or_none(row[0])) is not None
        ):
            cpus.append(
                Cpu(number, count_or_none(row[1]), count_or_none(row[2]), node_of.get(number))
            )
    quota = raw.get("quota")
    return record(
        CpuFacts,
        raw,
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
        if not isinstance(row, list) or len(row) != 4 or (number := count_or_none(row[0])) is None:
            return ()
        cpus = cpu_list(row[1])
        if seen & set(cpus) or len(seen) + len(cpus) > MOST:
            return ()
        seen |= set(cpus)
        found.append(Node(number, cpus, count_or_none(row[2]), count_or_none(row[3])))
    return tuple(found)


def mem(raw: Mapping[str, Any]) -> MemFacts:
    return record(MemFacts, raw, mems=cpu_list(raw.get("mems")) or None)


def disk(raw: Mapping[str, Any]) -> DiskFacts:
    return record(DiskFacts, raw, there=truth(raw.get("exists")))


def python(raw: Any) -> Python | None:
    if not isinstance(raw, Mapping):
        return None
    version = tuple(n for n in map(count_or_none, listed(raw.get("version"))) if n is not None)
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
        return count_or_none(text)
    text = plain(text, 40)
    try:
        return count_or_none(int(text, 16 if text.startswith("0x") else 10))
    except ValueError:
        return None


def _numbers(raw: Any) -> tuple[int, ...]:
    return tuple(n for n in map(count_or_none, listed(raw)) if n is not None)
