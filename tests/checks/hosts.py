"""A host with nothing wrong, every fact known, and ways to change one thing about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ipexctl.doctor.checks import run_all
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.finding import Finding
from ipexctl.facts.cpu_facts import Cpu, NumaNode
from ipexctl.facts.cpu_frequency_facts import Power
from ipexctl.facts.facts import Condition, Facts
from ipexctl.facts.kernel_facts import Kernel
from ipexctl.facts.limits_facts import Limit, UserLimits
from ipexctl.facts.pythons_facts import Python
from ipexctl.facts.reachability_facts import Peer
from ipexctl.facts.storage_facts import DiskFacts
from ipexctl.facts.system_facts import System
from ipexctl.stack.version_table import parse_table
from tests import made
from tests.facts.machines import AMX

ROOT = Path(__file__).parent.parent.parent
ROWS = parse_table((ROOT / "ipexctl/stack/stacks.toml").read_text("utf-8"))
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
Change = Callable[[Facts], Facts]

_CONDITION = Condition(
    power=Power(
        driver="intel_pstate",
        status="active",
        governors=("powersave",),
        preferences=("balance_performance",),
        turbo=True,
        max_khz=3_800_000,
        hardware_khz=3_800_000,
        throttled=0,
    ),
    kernel=Kernel(
        thp="madvise",
        numa_balancing=0,
        zone_reclaim=0,
        overcommit=0,
        swappiness=60,
    ),
    limits=UserLimits(
        nofile=Limit(1024, 524288),
        nproc=Limit(60000, 60000),
        file_size=Limit(1 << 62, 1 << 62),
        stack=Limit(8 * MIB, 1 << 62),
        address_space=Limit(1 << 62, 1 << 62),
        cpu_seconds=Limit(1 << 62, 1 << 62),
        pids=20000,
    ),
    system=System(
        bits=64,
        login_shell="bash",
        login_ms=120,
        session=True,
        kill_user_processes=False,
        remove_ipc=False,
        linger=False,
    ),
)


def clean(name: str = "node01", address: str = "10.0.0.1") -> Facts:
    """A Sapphire Rapids with 4 cores. The number in its name makes it a machine of its own."""
    facts = made.facts(name, address=address)
    number = int(name.removeprefix("node"))
    cpu = replace(
        facts.cpu, flags=frozenset(AMX.split()), model=143, stepping=8, microcode="0x2b000603"
    )
    home = replace(facts.disk, root="/home/trainer", there=True, source="/dev/sda1", point="/")
    condition = replace(_CONDITION, system=replace(_CONDITION.system, netns=4026531840))
    return replace(
        facts,
        kernel="Linux 6.1.0-18-amd64",
        boot_id=f"boot-{number}",
        os_ids=("debian",),
        cpu=cpu,
        net=replace(facts.net, hostname_addresses=(address,)),
        mem=replace(
            facts.mem,
            swap_total=4 * GIB,
            swap_free=4 * GIB,
            commit_limit=12 * GIB,
            committed=2 * GIB,
            huge=0,
            shm_there=True,
            shm_writable=True,
        ),
        disk=replace(facts.disk, source="/dev/sda1", point="/"),
        home_disk=home,
        tmp=replace(home, root="/tmp"),
        condition=condition,
        nodes=(NumaNode(0, (0, 1, 2, 3), 16 * GIB, 12 * GIB),),
    )


def part(name: str, **changes: Any) -> Change:
    """A change of one part of the facts: cpu, mem, disk, net, tmp, home_disk."""
    return lambda facts: replace(facts, **{name: replace(getattr(facts, name), **changes)})


def state(name: str, **changes: Any) -> Change:
    """A change of one part of the condition: power, kernel, limits, system."""

    def change(facts: Facts) -> Facts:
        own = replace(getattr(facts.condition, name), **changes)
        return replace(facts, condition=replace(facts.condition, **{name: own}))

    return change


def flags(text: str, **changes: Any) -> Change:
    """Also without a known model, so that nobody says what is missing."""
    changes.setdefault("model", 1)
    return part("cpu", flags=frozenset(text.split()), **changes)


def whole(**changes: Any) -> Change:
    return lambda facts: replace(facts, **changes)


def both(*changes: Change) -> Change:
    def change(facts: Facts) -> Facts:
        for one in changes:
            facts = one(facts)
        return facts

    return change


def python(minor: int) -> tuple[Python, ...]:
    return (Python("/usr/bin/python3", (3, minor)),)


def two_nodes(first: int | None = 8 * GIB, second: int | None = 8 * GIB, **cpu: Any) -> Change:
    """Two sockets, a NUMA node each, two cores in each."""
    cpus = tuple(Cpu(i, i, i // 2, i // 2) for i in range(4))
    nodes = (NumaNode(0, (0, 1), first, first), NumaNode(1, (2, 3), second, second))
    return both(part("cpu", cpus=cpus, **cpu), whole(nodes=nodes))


def nfs(disk: DiskFacts, server: str = "filer:/home") -> DiskFacts:
    return replace(disk, filesystem="nfs4", source=server, point="/home")


def three(**changed: Change) -> tuple[Facts, ...]:
    """node01 to node03, with a change where one is named."""
    hosts = (clean(f"node{i:02d}", f"10.0.0.{i}") for i in (1, 2, 3))
    return tuple(changed.get(f.host, lambda f: f)(f) for f in hosts)


def all_three(change: Change) -> tuple[Facts, ...]:
    return three(node01=change, node02=change, node03=change)


def findings(*hosts: Facts, peers: tuple[Peer, ...] = ()) -> tuple[Finding, ...]:
    return run_all(CheckedHosts(hosts, peers, ROWS))


def seen(*hosts: Facts, peers: tuple[Peer, ...] = ()) -> list[tuple[str, str, str, str]]:
    return [(f.id, f.severity.value, f.host, f.evidence) for f in findings(*hosts, peers=peers)]


def peer(source: str, target: str, **rest: Any) -> Peer:
    number = int(target.removeprefix("node"))
    return Peer(source, target, f"10.0.0.{number}", ok=True, **rest)
