"""What holds for every plan, whatever the host looks like: hypothesis finds no counterexample."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipexctl.facts import core_pinning, usable_cores
from ipexctl.facts.cpu_facts import Cpu, CpuFacts
from ipexctl.facts.cpu_facts import NumaNode as Numa
from ipexctl.facts.facts import Facts
from ipexctl.run.plan.launch import LaunchPlan, RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from tests import made
from tests.plan.hosts import node

IDS = st.integers(0, 4096)
FEW = st.integers(0, 6)
SOME = settings(max_examples=200, deadline=None)  # no time limits: the machine may be busy


def _sane(shape: tuple[int, int, int, int], offset: int) -> tuple[Cpu, ...]:
    """Sockets x nodes x cores x threads, with ids that need not begin at 0."""
    sockets, nodes, cores, threads = shape
    total = sockets * nodes * cores
    return tuple(
        Cpu(offset + t * total + i, offset + i, i // (nodes * cores), i // cores)
        for t in range(threads)
        for i in range(total)
    )


sane = st.builds(
    _sane,
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 9), st.integers(1, 4)),
    st.sampled_from([0, 1, 64]),
)
# what no machine has, but a hypervisor or a broken table may tell
weird = st.lists(
    st.builds(Cpu, IDS, st.none() | IDS, st.none() | FEW, st.none() | FEW), max_size=40
).map(tuple)


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    cpus = draw(sane | weird)
    ids = [c.id for c in cpus]
    some = st.lists(st.sampled_from(ids), unique=True).map(tuple) if ids else st.just(())
    cpu: CpuFacts = replace(
        made.cpu(),
        cpus=cpus,
        allowed=draw(st.none() | some),
        efficient=draw(st.just(()) | some),
        quota=draw(st.none() | st.floats(0.1, 64)),
    )
    nodes = {c.node for c in cpus if c.node is not None}
    memory = draw(st.lists(st.sampled_from([None, 0, 1 << 30]), min_size=16, max_size=16))
    numa = tuple(Numa(n, tuple(c.id for c in cpus if c.node == n), memory[n], None) for n in nodes)
    return replace(made.facts(), cpu=cpu, nodes=numa)


asks = st.tuples(st.integers(1, 20), st.booleans(), st.integers(1, 3))


def _planned(host: Facts, ranks: int, *, ccl: bool, workers: int) -> LaunchPlan:
    env = (("CCL_WORKER_COUNT", str(workers)),) if ccl else ()
    request = RunRequest(("train.py",), ppn=ranks, env=env)
    return make_launch_plan([node(host, ccl=ccl)], request, "r1")


def _core_of(host: Facts) -> dict[int, int]:
    """CPU -> number of its physical core, as this user sees them."""
    found = enumerate(usable_cores.list_cores(host.cpu))
    return {cpu: number for number, core in found for cpu in core}


@SOME
@given(facts(), asks)
def test_ranks_have_granted_cores_of_their_own_and_threads_that_fit_them(host, asked):
    ranks, ccl, workers = asked
    (only,) = _planned(host, ranks, ccl=ccl, workers=workers).hosts
    core_of, places = _core_of(host), only.ranks
    comm = [cpu for place in places for cpu in place.comm]

    # never a CPU that the host does not grant
    granted = {c.id for c in host.cpu.cpus}
    if host.cpu.allowed is not None:
        granted &= set(host.cpu.allowed)
    assert {cpu for place in places for cpu in place.cpus} | set(comm) <= granted

    # no core is used twice where there are enough
    computing = [core_of[cpu] for place in places for cpu in place.cpus]
    fast = core_pinning.fast_cores(host.cpu)
    if ranks <= len(fast):
        assert len(computing) == len(set(computing))
    else:  # asked for: every rank may run on all of them
        assert {place.cpus for place in places} == {tuple(sorted(core[0] for core in fast))}
    if len(fast) // ranks > workers:  # the smallest part has cores to spare
        assert len(comm) == len(set(comm)) == (ranks * workers if ccl else 0)
        assert not {core_of[cpu] for cpu in comm} & set(computing)

    # threads fit the cores of every rank and the quota
    if only.threads is None:
        assert not any(place.cpus for place in places)
        assert "OMP_NUM_THREADS" not in dict(only.rank_env)
        return
    assert all(1 <= only.threads <= len(place.cpus) for place in places)
    quota, workers = host.cpu.quota, workers if ccl else 0
    if quota is not None and quota >= ranks * (1 + workers):
        assert ranks * (only.threads + workers) <= quota


@SOME
@given(facts(), st.integers(1, 20))
def test_no_rank_has_more_than_one_core_more_than_another(host, ranks):
    """Unless each stays in its own node, where nodes are about alike."""
    sizes = [
        len(place.cpus) for place in _planned(host, ranks, ccl=False, workers=0).hosts[0].ranks
    ]
    nodes = core_pinning.by_node(host.cpu)
    by_node = (
        ranks <= sum(map(len, nodes))
        and core_pinning.similar_sizes(nodes)
        and ranks % len(nodes) == 0
    )
    assert max(sizes) - min(sizes) <= (max(map(len, nodes)) // 4 + 1 if by_node else 1)


@SOME
@given(facts())
def test_a_host_has_by_itself_at_least_one_rank_and_no_more_than_nodes(host):
    assert 1 <= usable_cores.default_ranks(host.cpu) <= usable_cores.numa_nodes(host.cpu)


@SOME
@given(
    st.lists(st.tuples(st.integers(0, 5), sane), min_size=1, max_size=5),
    st.none() | st.integers(1, 30),
    st.none() | st.integers(1, 6),
)
def test_ranks_are_numbered_without_a_gap_and_are_as_many_as_asked(hosts, n, ppn):
    from ipexctl.errors import InputError

    nodes = [
        node(replace(made.facts(f"n{i}", address=f"10.0.0.{i}"), cpu=replace(made.cpu(), cpus=c)),
             slots=slots)
        for i, (slots, c) in enumerate(hosts)
    ]  # fmt: skip
    try:
        made_plan = make_launch_plan(nodes, RunRequest(("train.py",), n, ppn), "r1")
    except InputError as refused:
        assert refused.slug == "ranks-do-not-fit" and f"-n {n} " in refused.what
        return
    ranks = [place.rank for host in made_plan.hosts for place in host.ranks]
    assert ranks == list(range(made_plan.world_size))
    assert n is None or made_plan.world_size == n
    assert ppn is None or all(len(host.ranks) <= ppn for host in made_plan.hosts)
    assert all(host.ranks for host in made_plan.hosts)


@pytest.mark.parametrize("allowed", [None, (), (0, 1)])
def test_a_kernel_that_hides_its_cpus_gets_ranks_that_are_not_pinned(allowed):
    host = replace(made.facts(), cpu=replace(made.cpu(), cpus=(), allowed=allowed))
    (only,) = _planned(host, 2, ccl=False, workers=0).hosts
    assert [place.cpus for place in only.ranks] == [(), ()]
    assert only.threads is None
