"""Real machines that others recorded, where their records are beside this checkout.

The numbers are those in the names of the records (4s2c2t: sockets, cores, threads; n: NUMA nodes)
and in their README; where a name does not say it, they were counted in the raw files by hand.
"""

from __future__ import annotations

import pytest

from ipexctl.doctor.checks import run_all
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.recommendations import recommend_settings
from ipexctl.facts import host_facts as of
from ipexctl.facts import isa, processors
from ipexctl.machines.probe_host import probe_facts
from tests.checks.hosts import GIB, ROWS
from tests.facts.recorded import RECORDED

# AMD's family 21 (the Opterons here) has one thread per core, though its kernels list pairs.
# name: (CPUs online, CPUs ours, cores ours, sockets, NUMA nodes), level, processor
TREES = {
    "16amd64-8n2c-cpusets": ((15, 10, 10, 8, 8), "sse", ""),
    "16em64t-4s2c2t-offlines": ((12, 12, 7, 4, 1), "sse", ""),
    "20em64t-hybrid-1p6c2t+2ca4co1t": ((20, 20, 14, 1, 1), "avx2", "Raptor Lake"),
    "2pa-pcidomain32bits": ((2, 2, 2, 2, 1), "avx2", "Skylake client"),
    "32amd64-4s2n4c-cgroup2": ((32, 6, 6, 4, 8), "sse", ""),
    "40intel64-2g2n4c+pcilocality": ((40, 40, 40, 4, 4), "sse", "before Haswell"),
    "64amd64-4s2n4ca2co": ((64, 64, 64, 4, 8), "avx", ""),
    "8em64t-2s2ca2c-buggynuma": ((8, 8, 8, 2, 0), "sse", "before Haswell"),
    "96em64t-4no4pa3ca2co": ((96, 96, 96, 16, 4), "sse", "before Haswell"),
    "arm-A510-A710-A715-X3": ((8, 8, 8, 3, 0), "neon", ""),
    "memorysidecaches": ((80, 80, 40, 2, 4), "avx512", "Cascade Lake"),
    "vmware_fpe": ((16, 16, 16, 2, 4), "avx", ""),
    "x86_64-64cpu": ((64, 64, 32, 4, 3), "sse", "before Haswell"),
    "x86_64-64cpu-linux6.2": ((8, 8, 4, 1, 1), "avx512", "Tiger Lake"),
    "x86_64-epyc_7451": ((96, 96, 48, 2, 8), "avx2", "Zen"),
}
# name: CPUs ours, offline ones, those of slower cores
PARTS = {
    "16amd64-8n2c-cpusets": ((0, 1, 2, 3, 5, 6, 12, 13, 14, 15), (4,), ()),
    "16em64t-4s2c2t-offlines": (None, (2, 5, 13, 14), ()),
    "20em64t-hybrid-1p6c2t+2ca4co1t": (None, (), tuple(range(12, 20))),
    "32amd64-4s2n4c-cgroup2": (tuple(range(6)), (), ()),
    "arm-A510-A710-A715-X3": (None, (), tuple(range(7))),
}
CPUINFO = {
    "linux-unknown-sapphirerapids": ("amx", "Sapphire Rapids"),
    "linux-rocky8.5-zen4": ("avx512-bf16", "Zen 4"),
    "linux-rocky9-zen5": ("avx512-bf16", "Zen 5"),
    "linux-centos7-cascadelake": ("avx512", "Cascade Lake"),
    "linux-rhel7-skylake_avx512": ("avx512", "Skylake-SP"),
    "linux-rhel7-haswell": ("avx2", "Haswell"),
    "linux-ubuntu20.04-zen3": ("avx2", "Zen 3"),
    "linux-rhel7-zen": ("avx2", "Zen"),
    "linux-amazon-neoverse_v1": ("sve-bf16", "Neoverse V1"),
}


def test_no_record_is_left_out(recorded):
    assert sorted(recorded) == sorted(TREES)


@pytest.mark.parametrize("name", TREES)
def test_a_recorded_machine_has_the_cpus_it_is_known_for(recorded, name):
    facts = recorded[name]
    counts = (
        len(facts.cpu.cpus),
        len(of.usable_cpus(facts) or ()),
        of.count_usable_cores(facts),
        len({c.socket for c in facts.cpu.cpus}),
        len(facts.nodes),
    )
    about = isa.cpu_level(facts.cpu), processors.find_processor(facts.cpu).name
    assert (counts, *about) == TREES[name]


@pytest.mark.parametrize("name", PARTS)
def test_what_is_not_ours_not_online_or_slower_is_known(recorded, name):
    cpu = recorded[name].cpu
    usable = of.usable_cpus(recorded[name]) or frozenset()
    ours, offline, slower = PARTS[name]
    if ours is not None:
        assert tuple(sorted(usable)) == ours
    assert (cpu.offline, cpu.efficient) == (offline, slower)


# name: nodes whose memory is ours, how much that is in GiB
CPUSETS = {
    "16amd64-8n2c-cpusets": ((1, 2, 3, 4), 32),
    "32amd64-4s2n4c-cgroup2": ((0, 1, 2, 3, 4, 5), 96),
}


@pytest.mark.parametrize("name", CPUSETS)
def test_the_memory_of_a_cpuset_is_that_of_its_nodes(recorded, name):
    facts = recorded[name]
    nodes, gib = CPUSETS[name]
    assert (facts.mem.mems, round((of.usable_memory(facts) or 0) / GIB)) == (nodes, gib)


@pytest.mark.parametrize("name", TREES)
def test_only_the_record_that_says_so_contradicts_itself(recorded, name):
    assert recorded[name].nodes_contradict is ("buggynuma" in name)


@pytest.mark.parametrize("name", TREES)
def test_it_can_be_judged_and_advised(recorded, name):
    cluster = CheckedHosts((recorded[name],), rows=ROWS)
    assert all(f.evidence and f.why and f.fix for f in run_all(cluster))
    (advice,) = recommend_settings(cluster)
    assert advice.dtype == "fp32"  # none of them has bf16
    assert ("not x86" in advice.verdict) is name.startswith("arm")


@pytest.mark.parametrize("name", CPUINFO)
def test_a_recorded_processor_has_the_level_and_name_it_is_known_for(agent, tmp_path, name):
    source = RECORDED / "cpuinfo" / f"{name}.txt"
    if not source.exists():
        pytest.skip("the recorded processors are not beside this checkout")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text(source.read_text())
    cpu = probe_facts(agent, fs=str(tmp_path)).cpu
    assert (isa.cpu_level(cpu), processors.find_processor(cpu).name) == CPUINFO[name]
