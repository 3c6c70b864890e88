"""Limits of the placement that no machine of test_plans.py lies on."""

from dataclasses import replace

import pytest

from ipexctl.facts.core_pinning import place_ranks
from ipexctl.facts.cpu_facts import Cpu, CpuFacts
from ipexctl.facts.usable_cores import default_ranks, list_cores
from tests.made import cpu, facts


def pin(machine: CpuFacts, ranks: int) -> tuple[tuple[int, ...], ...]:
    return tuple(part.cpus for part in place_ranks(facts(cpus=machine), ranks).parts)


def _nodes(*sizes: int) -> CpuFacts:
    node_of = [node for node, size in enumerate(sizes) for _ in range(size)]
    return replace(cpu(), cpus=tuple(Cpu(i, i, 0, node) for i, node in enumerate(node_of)))


@pytest.mark.parametrize(
    ("machine", "ranks", "sizes"),
    [
        pytest.param(_nodes(4, 3), 4, [2, 2, 2, 1], id="nodes just alike enough to stay within"),
        pytest.param(_nodes(8, 6), 14, [1] * 14, id="a node with fewer cores than its ranks"),
    ],
)
def test_ranks_stay_within_numa_nodes_that_are_about_alike(machine, ranks, sizes):
    assert [len(p) for p in pin(machine, ranks)] == sizes


def test_slower_cores_are_used_where_only_they_are_granted():
    assert pin(replace(cpu(cores=6, allowed=(4, 5)), efficient=(4, 5)), 1) == ((4, 5),)


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        pytest.param(8.0, 1, id="eight CPUs' worth of time fill one node of eight cores"),
        pytest.param(9.0, 2, id="nine take two"),
    ],
)
def test_a_quota_fills_no_more_nodes_than_it_takes(quota, expected):
    assert default_ranks(replace(cpu(sockets=2, cores=8), quota=quota)) == expected


def test_threads_of_one_core_in_two_nodes_stay_one_core():
    twins = (Cpu(0, 0, 0, 0), Cpu(1, 0, 0, 1))
    assert list_cores(replace(cpu(), cpus=twins)) == ((0, 1),)
