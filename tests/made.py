"""Facts made up for tests of the pure parts: a host with what the test names, plain otherwise."""

from __future__ import annotations

import json
import zlib
from typing import Any

from ipexctl.common.attempt_record import KeeperAnswer
from ipexctl.common.install_answers import EnvState
from ipexctl.common.journal_records import FactNoted, JournalRecord, WrittenRecord
from ipexctl.common.restart_plan import RestartCommon
from ipexctl.common.run_about import RunAbout
from ipexctl.common.run_answers import AttemptSummary, JournalSummary, RunRow
from ipexctl.common.run_events import Event, Fact
from ipexctl.common.run_orders import HostOfRun, HubOrder, RankOrder, StartOrder
from ipexctl.common.shown_plans import ShownPlan
from ipexctl.facts.clocks_facts import ClockFacts
from ipexctl.facts.cpu_facts import Cpu, CpuFacts
from ipexctl.facts.facts import Facts, NetFacts
from ipexctl.facts.interfaces_facts import Nic
from ipexctl.facts.memory_and_swap_facts import MemFacts
from ipexctl.facts.mpi_install_facts import Mpi
from ipexctl.facts.pythons_facts import Python
from ipexctl.facts.storage_facts import DiskFacts
from ipexctl.inventory.inventory import Host
from ipexctl.remote.run_files.journal import HEAD
from ipexctl.run.plan.launch import Prepared

# what the machine below the tests may lack, or do beside them: lab hosts show it as it is
OF_MACHINE = frozenset({"CPU-002", "CPU-005", "LOAD-001", "LOAD-002", "LOAD-003"})


def cpu(
    *, sockets: int = 1, cores: int = 4, threads: int = 1, allowed: tuple[int, ...] | None = None
) -> CpuFacts:
    """As Linux numbers them: first threads of all cores first, then second threads."""
    total = sockets * cores
    cpus = tuple(
        Cpu(id=t * total + s * cores + c, core=s * cores + c, socket=s, node=s)
        for t in range(threads)
        for s in range(sockets)
        for c in range(cores)
    )
    flags = frozenset({"avx", "avx2", "fma"})
    return CpuFacts("x86_64", "GenuineIntel", "Made CPU", 6, 85, flags, cpus, allowed)


def facts(
    name: str = "node01",
    *,
    address: str = "10.0.0.1",
    nic: str = "eth0",
    cpus: CpuFacts | None = None,
) -> Facts:
    return Facts(
        host=name,
        kernel="Linux 6.1",
        os_name="Debian GNU/Linux 12",
        libc="glibc 2.36",
        user="trainer",
        uid=1000,
        home="/home/trainer",
        boot_id="made",
        agent="python",
        cpu=cpus or cpu(),
        mem=MemFacts(16 << 30, 12 << 30, 0, 8 << 30, 8 << 30),
        net=NetFacts(name, ("127.0.1.1",), address, (Nic(nic, True, 1500, (address,)),), nic),
        disk=DiskFacts("/home/trainer/.ipexctl", 50 << 30, 10**6, "ext4", False, True),
        pythons=(Python("/usr/bin/python3", (3, 11, 2)),),
        clock=ClockFacts(0.0, 0.01),
    )


def prepared(prefix: str = "/home/trainer/.ipexctl/envs/abc") -> Prepared:
    env = (("PATH", f"{prefix}/bin"), ("I_MPI_ROOT", prefix))
    mpi = Mpi("intel", "2021.18.1", f"{prefix}/bin")
    return Prepared(prefix, (("torch", "2.13.0"),), env, "/usr/bin:/bin", 29500, mpi)


def host(name: str, slots: int = 0) -> Host:
    return Host(name, slots=slots)


def start_order(**values: object) -> StartOrder:
    """What a host is told when a run begins, of a run with nothing special."""
    usual: dict[str, object] = {
        "run_id": "20260101-000000-abcdef", "lease": 30.0, "about": RunAbout(), "inputs": {},
        "env": {}, "cwd": "/", "ranks": [], "checkpoints": [], "machinefile": "", "store_port": 1,
        "secret": False, "hub": "a", "data": [], "modules": {},
        "run": None, "host": "a",
    }  # fmt: skip
    return StartOrder(**{**usual, **values})


def row_of_host(name: str, ranks: list[int], **more: object) -> HostOfRun:
    usual: dict[str, object] = {
        "host": name, "label": name, "prefix": "/p", "nic": "", "mpi_bin": "", "ranks": ranks,
        "starter": [], "address": name,
    }  # fmt: skip
    return HostOfRun(**{**usual, **more})


def restart_common(run_id: str) -> RestartCommon:
    """Of a run with --restarts that has no MPI."""
    hub = HubOrder([], [], None, None, 45.0, "note", 10.0, False, "a")
    return RestartCommon(run_id, RunAbout(), hub, ShownPlan(()), {"RANK": "rank"}, [], "")


def rank_order(rank: int) -> RankOrder:
    return RankOrder(rank, rank, [], None, {}, ["true"])


def event_document(event: Event, host: str = "") -> dict[str, Any]:
    """As a host sends it, and as the fact is in documents of journals."""
    return Fact(event, host).document()


def noted(event: Event, host: str = "") -> FactNoted:
    """The record of a fact."""
    return FactNoted(Fact(event, host))


def written(*records: JournalRecord, at: float = 0.0) -> list[WrittenRecord]:
    """These as a journal has them, at this time."""
    return [WrittenRecord(record, at) for record in records]


def journal_bytes(*documents: dict[str, Any]) -> bytes:
    """These as a journal has them, whether or not they are records of ours."""
    texts = [json.dumps(document).encode("ascii") for document in documents]
    return b"".join(HEAD.pack(len(text), zlib.crc32(text)) + text for text in texts)


def run_row(
    run: str,
    host: str = "node01",
    *,
    alive: bool = False,
    journal: JournalSummary | None = None,
    record: AttemptSummary | None = None,
    keeper: KeeperAnswer | None = None,
    **more: Any,
) -> RunRow:
    """What a host answers about a run."""
    parts = (journal or JournalSummary(), record or AttemptSummary(), keeper or KeeperAnswer())
    return RunRow(run, host, alive, *parts, **more)


def env_state(root: str = "/r", current: str = "", **others: Any) -> EnvState:
    """A host that has nothing of the environment."""
    none: Any = {"built": False, "mark": "", "proved": False, "changed": [], "packages": []}
    none |= {"asked": False, "before": "", "own": False, "before_packages": []}
    return EnvState(root=root, current=current, **{**none, **others})
