"""The facts of a host that `${fact.NAME}` and `when` can use."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ipexctl.facts import isa
from ipexctl.facts.facts import Facts
from ipexctl.quick_dataclass import dataclass

Value = str | int | None


@dataclass(frozen=True)
class FactValue:
    doc: str
    read: Callable[[Facts], Value]


def _count_different(numbers: Iterable[int | None]) -> int | None:
    """Return the number of distinct values; None if a value is unknown."""
    values = set(numbers)
    return None if None in values else len(values)


def _to_gib(size: int | None) -> int | None:
    return None if size is None else size >> 30


FACTS: dict[str, FactValue] = {
    "isa": FactValue(
        f"instruction set: {', '.join(isa.LEVELS)}", lambda f: isa.cpu_level(f.cpu) or None
    ),
    "arch": FactValue("machine architecture: x86_64, aarch64", lambda f: f.cpu.arch or None),
    "cpu_model": FactValue("name of the processor", lambda f: f.cpu.model_name or None),
    "cpus": FactValue("logical CPUs that are online", lambda f: len(f.cpu.cpus) or None),
    "cores": FactValue(
        "physical cores", lambda f: _count_different(cpu.core for cpu in f.cpu.cpus)
    ),
    "sockets": FactValue(
        "processor sockets", lambda f: _count_different(cpu.socket for cpu in f.cpu.cpus)
    ),
    "numa_nodes": FactValue("NUMA nodes", lambda f: len(f.nodes) or None),
    "memory": FactValue("memory in GiB", lambda f: _to_gib(f.mem.total)),
    "os": FactValue(
        "distribution: ubuntu, debian, rhel", lambda f: f.os_ids[0] if f.os_ids else None
    ),
    "os_family": FactValue(
        "distribution that it comes from: debian, fedora (RHEL and derivatives), suse",
        lambda f: f.os_ids[-1] if f.os_ids else None,
    ),
    "os_name": FactValue("full name of the operating system", lambda f: f.os_name or None),
    "kernel": FactValue("kernel release", lambda f: f.kernel or None),
    "user": FactValue("user name on the host", lambda f: f.user or None),
    "home": FactValue("home folder on the host", lambda f: f.home or None),
    "hostname": FactValue("the host's own name", lambda f: f.net.hostname or None),
    "nic": FactValue("interface of the default route", lambda f: f.net.default_nic or None),
}
NAMES = frozenset(f"fact.{name}" for name in FACTS)


def fact_values(facts: Facts) -> dict[str, str]:
    """Return values by their names in a play. A fact that a host did not report is left out."""
    values = {f"fact.{name}": fact.read(facts) for name, fact in FACTS.items()}
    return {name: str(value) for name, value in values.items() if value is not None}
