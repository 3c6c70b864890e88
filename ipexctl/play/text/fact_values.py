"""The facts of a host that `${fact.NAME}` and `when` can use."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ipexctl.facts import isa
from ipexctl.facts.facts import Facts
from ipexctl.quick_dataclass import dataclass

Value = str | int | None


@dataclass(frozen=True)
class Fact:
    doc: str
    read: Callable[[Facts], Value]


def _count(numbers: Iterable[int | None]) -> int | None:
    """Return how many distinct values there are; None if one is not known."""
    found = set(numbers)
    return None if None in found else len(found)


def _gib(size: int | None) -> int | None:
    return None if size is None else size >> 30


FACTS: dict[str, Fact] = {
    "isa": Fact(f"instruction set: {', '.join(isa.LEVELS)}", lambda f: isa.level(f.cpu) or None),
    "arch": Fact("machine architecture: x86_64, aarch64", lambda f: f.cpu.arch or None),
    "cpu_model": Fact("name of the processor", lambda f: f.cpu.model_name or None),
    "cpus": Fact("logical CPUs that are online", lambda f: len(f.cpu.cpus) or None),
    "cores": Fact("physical cores", lambda f: _count(cpu.core for cpu in f.cpu.cpus)),
    "sockets": Fact("processor sockets", lambda f: _count(cpu.socket for cpu in f.cpu.cpus)),
    "numa_nodes": Fact("NUMA nodes", lambda f: len(f.nodes) or None),
    "memory": Fact("memory in GiB", lambda f: _gib(f.mem.total)),
    "os": Fact("distribution: ubuntu, debian, rhel", lambda f: f.os_ids[0] if f.os_ids else None),
    "os_family": Fact(
        "distribution that it comes from: debian, fedora (RHEL and derivatives), suse",
        lambda f: f.os_ids[-1] if f.os_ids else None,
    ),
    "os_name": Fact("full name of the operating system", lambda f: f.os_name or None),
    "kernel": Fact("kernel release", lambda f: f.kernel or None),
    "user": Fact("user name on the host", lambda f: f.user or None),
    "home": Fact("home folder on the host", lambda f: f.home or None),
    "hostname": Fact("the host's own name", lambda f: f.net.hostname or None),
    "nic": Fact("interface of the default route", lambda f: f.net.default_nic or None),
}
NAMES = frozenset(f"fact.{name}" for name in FACTS)


def fact_values(facts: Facts) -> dict[str, str]:
    """Return values by their names in a play. A fact that a host did not report is left out."""
    found = {f"fact.{name}": fact.read(facts) for name, fact in FACTS.items()}
    return {name: str(value) for name, value in found.items() if value is not None}
