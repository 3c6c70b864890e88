"""Machines that others recorded, where their records are beside this checkout."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import Any

from ipexctl.facts.facts import Facts
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent import Agent
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.probe_host import probe_facts
from ipexctl.machines.wire.transport import LocalTransport

RECORDED = Path(__file__).parent.parent.parent.parent / "shared" / "machines"
# What the probe reads of a tree: unpacking the rest takes longer than all tests together.
_READ = frozenset(
    """cpuinfo meminfo mounts cgroup cpuset online present isolated cpus cpulist cpumap core_id
    physical_package_id thread_siblings thread_siblings_list core_cpus core_cpus_list core_siblings
    core_siblings_list package_cpus package_cpus_list die_id cpuset.cpus cpuset.cpus.effective
    cpuset.effective_cpus mems cpuset.mems.effective cpu_capacity cpuinfo_max_freq
    scaling_max_freq scaling_governor scaling_driver status no_turbo boost
    core_throttle_count package_throttle_count enabled
    numa_balancing""".split()  # noqa: SIM905
)


def read_all() -> dict[str, Facts]:
    """Empty where there are none."""
    found = {p.name.rpartition(".tar")[0]: p for p in (RECORDED / "trees").glob("*.tar.*")}
    agent = start_host_agent(LocalTransport(), Host("here", local=True))
    try:
        with tempfile.TemporaryDirectory() as folder:
            return {n: _read(agent, path, Path(folder, n)) for n, path in found.items()}
    finally:
        agent.close()


# early releases of Python 3.10 and 3.11 do not have it
_FILTER: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def _read(agent: Agent, path: Path, folder: Path) -> Facts:
    folder.mkdir()
    with tarfile.open(path) as tar:
        for member in tar:
            if member.name.rpartition("/")[2] in _READ and member.isfile():
                tar.extract(member, folder, **_FILTER)
    return probe_facts(agent, fs=str(next(folder.iterdir())))
