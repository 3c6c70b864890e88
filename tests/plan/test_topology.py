from dataclasses import replace

import pytest

from ipexctl.facts.facts import Cpu, CpuFacts
from ipexctl.facts.usable_cores import cores, default_ranks, numa_nodes
from ipexctl.run.plan.core_pinning import place_ranks
from tests.made import cpu, facts


def pin(machine: CpuFacts, ranks: int) -> tuple[tuple[int, ...], ...]:
    return tuple(part.cpus for part in place_ranks(facts(cpus=machine), ranks).parts)


def threads(machine: CpuFacts, ranks: int) -> int | None:
    return place_ranks(facts(cpus=machine), ranks).threads


@pytest.mark.parametrize(
    ("machine", "ranks", "expected"),
    [
        pytest.param(cpu(cores=4), 1, ((0, 1, 2, 3),), id="one rank gets every core"),
        pytest.param(cpu(cores=4), 2, ((0, 1), (2, 3)), id="two ranks get halves"),
        pytest.param(cpu(cores=5), 2, ((0, 1, 2), (3, 4)), id="the odd core goes to the first"),
        pytest.param(
            cpu(sockets=2, cores=2, threads=2), 2, ((0, 1), (2, 3)),
            id="a rank per socket, first threads only",
        ),
        pytest.param(
            cpu(cores=4, allowed=(1, 3)), 2, ((1,), (3,)), id="never a core that is not granted"
        ),
        pytest.param(
            cpu(cores=2, threads=2, allowed=(2, 3)), 2, ((2,), (3,)),
            id="the second thread where only that is granted",
        ),
        pytest.param(
            cpu(cores=2), 3, ((0, 1),) * 3, id="more ranks than cores: all may run everywhere"
        ),
    ],
)  # fmt: skip
def test_ranks_get_whole_cores_of_what_the_host_grants(machine, ranks, expected):
    assert pin(machine, ranks) == expected


def _nodes(*sizes: int) -> CpuFacts:
    node_of = [node for node, size in enumerate(sizes) for _ in range(size)]
    return replace(cpu(), cpus=tuple(Cpu(i, i, 0, node) for i, node in enumerate(node_of)))


@pytest.mark.parametrize(
    ("machine", "ranks", "sizes", "each"),
    [
        pytest.param(_nodes(43, 43, 42), 3, [43, 43, 42], 42, id="a rank stays in its node"),
        pytest.param(_nodes(4, 3), 4, [2, 2, 2, 1], 1, id="so do two ranks per node"),
        pytest.param(_nodes(4, 4), 3, [3, 3, 2], 2, id="three ranks on two nodes cannot"),
        pytest.param(_nodes(10, 2), 2, [6, 6], 6, id="nodes that are too unequal are ignored"),
    ],
)
def test_ranks_stay_within_numa_nodes_that_are_about_alike(machine, ranks, sizes, each):
    places = pin(machine, ranks)
    assert [len(p) for p in places] == sizes
    assert threads(machine, ranks) == each
    assert sorted(c for p in places for c in p) == [c.id for c in machine.cpus]


def test_the_slower_cores_of_a_hybrid_processor_get_no_rank():
    machine = replace(cpu(cores=6), efficient=(4, 5))
    assert (pin(machine, 2), threads(machine, 2)) == (((0, 1), (2, 3)), 2)


def test_slower_cores_are_used_where_only_they_are_granted():
    assert pin(replace(cpu(cores=6, allowed=(4, 5)), efficient=(4, 5)), 1) == ((4, 5),)


def test_smt_threads_of_a_core_stand_together():
    assert cores(cpu(sockets=1, cores=2, threads=2)) == ((0, 2), (1, 3))


def test_a_numa_node_without_granted_cpus_holds_no_rank():
    assert numa_nodes(cpu(sockets=2, cores=2)) == 2
    assert numa_nodes(cpu(sockets=2, cores=2, allowed=(0, 1))) == 1


@pytest.mark.parametrize(("ranks", "expected"), [(1, 4), (2, 2), (3, 1), (8, 1)])
def test_threads_per_rank_are_equal_on_a_host(ranks, expected):
    assert threads(cpu(cores=4), ranks) == expected


@pytest.mark.parametrize(
    ("quota", "nodes", "expected"),
    [
        pytest.param(None, 2, 2, id="one per node"),
        pytest.param(4.0, 2, 1, id="four CPUs' worth of time fill one node of eight cores"),
        pytest.param(8.0, 2, 1, id="so do eight"),
        pytest.param(9.0, 2, 2, id="nine take two"),
        pytest.param(0.5, 2, 1, id="never none"),
        pytest.param(99.0, 2, 2, id="never more than there are nodes"),
    ],
)
def test_a_quota_fills_no_more_nodes_than_it_takes(quota, nodes, expected):
    assert default_ranks(replace(cpu(sockets=nodes, cores=8), quota=quota)) == expected


@pytest.mark.parametrize(
    ("quota", "ranks", "workers", "expected"),
    [(None, 2, 0, 4), (4.0, 2, 0, 2), (5.5, 2, 0, 2), (4.0, 2, 1, 1), (1.0, 2, 0, 1)],
)
def test_threads_do_not_exceed_the_quota(quota, ranks, workers, expected):
    machine = facts(cpus=replace(cpu(cores=8), quota=quota))
    assert place_ranks(machine, ranks, workers).threads == expected


def test_threads_of_one_core_in_two_nodes_stay_one_core():
    twins = (Cpu(0, 0, 0, 0), Cpu(1, 0, 0, 1))
    assert cores(replace(cpu(), cpus=twins)) == ((0, 1),)


def test_every_rank_has_a_core_where_a_node_has_fewer_than_its_share():
    assert [len(p) for p in pin(_nodes(8, 6), 14)] == [1] * 14
