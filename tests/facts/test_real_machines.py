"""No false alarm on machines that are well, and the right advice for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.core.checks import run_all
from ipexctl.core.checks.cluster import Cluster
from ipexctl.core.doctor.recommendations import recommend
from ipexctl.core.facts import host_facts as of
from ipexctl.core.facts import isa, processors
from ipexctl.core.model import Facts, Host
from ipexctl.core.run import launch_plan
from ipexctl.hosts.agent import Agent, connect
from ipexctl.hosts.transport import LocalTransport
from ipexctl.verbs.doctor.probe_host import probe_and_listen
from tests import made
from tests.checks.hosts import ROWS, clean, flags, three
from tests.facts.machines import AVX512
from tests.facts.real import REAL, Real


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    agent = connect(LocalTransport(), Host("here", local=True))
    yield agent
    agent.close()


@pytest.fixture(scope="module")
def facts(agent, tmp_path_factory) -> dict[str, Facts]:
    return {
        name: _probed(agent, real, tmp_path_factory.mktemp("tree")) for name, real in REAL.items()
    }


def _probed(agent: Agent, real: Real, tree: Path) -> Facts:
    """What is recorded comes from the tree; what only a live host can tell is a clean host's."""
    own = probe_and_listen(agent, listen=False, fs=str(real.machine.write(tree)))[0]
    system = replace(
        clean().condition.system,
        rdma=own.condition.system.rdma,
        infiniband=own.condition.system.infiniband,
    )
    return replace(
        clean(),
        kernel=real.kernel,
        cpu=replace(own.cpu, arch=real.arch),
        mem=own.mem,
        nodes=own.nodes,
        nodes_contradict=own.nodes_contradict,
        condition=replace(own.condition, limits=clean().condition.limits, system=system),
    )


@pytest.mark.parametrize("name", REAL)
def test_it_has_the_shape_the_level_and_the_name_it_is_known_for(facts, name):
    real, own = REAL[name], facts[name]
    sockets = {c.socket for c in own.cpu.cpus}
    assert (len(own.cpu.cpus), of.cores(own), len(sockets), len(own.nodes)) == real.shape
    assert isa.level(own.cpu) == real.level
    assert processors.processor(own.cpu).name == real.processor
    assert ", ".join(isa.extras(own.cpu)) == real.extras


@pytest.mark.parametrize("name", REAL)
def test_nothing_is_said_about_it_but_what_its_fixture_names(facts, name):
    found = run_all(Cluster((facts[name],), rows=ROWS))
    assert sorted((f.id, f.severity.value) for f in found) == sorted(REAL[name].seen)


@pytest.mark.parametrize("name", REAL)
def test_the_advice_is_right_and_says_why(facts, name):
    (advice,) = recommend(Cluster((facts[name],), rows=ROWS))
    real = REAL[name]
    assert (advice.dtype, advice.ranks, advice.threads) == real.advice
    assert [words for words in real.reasons if words not in "\n".join(advice.why)] == []
    assert (advice.verdict, advice.row) == (real.verdict, ROWS[0].name)


@pytest.mark.parametrize("name", [n for n, real in REAL.items() if real.arch == "x86_64"])
def test_a_run_without_numbers_does_what_the_advice_says(facts, name):
    own = facts[name]
    node = launch_plan.Node(made.host("node01"), own, made.prepared())
    request = launch_plan.RunRequest(("train.py",))
    (planned,) = launch_plan.plan([node], request, "20261120-1").hosts
    threads = dict(planned.rank_env)["OMP_NUM_THREADS"]
    assert (len(planned.ranks), int(threads)) == REAL[name].advice[1:]


# --- groups of hosts -----------------------------------------------------------------------------


def test_equal_hosts_get_one_advice():
    (advice,) = recommend(Cluster(three(), rows=ROWS))
    assert advice.hosts == ("node01", "node02", "node03")


def test_hosts_without_bf16_are_named_to_those_that_have_it():
    hosts = three(node02=flags(AVX512))
    first, second = recommend(Cluster(hosts, rows=ROWS))
    assert (first.hosts, first.dtype) == (("node01", "node03"), "fp32")  # one for all ranks
    assert "node02 has no fast bf16; without it bf16, which AMX computes here" in first.why[0]
    assert (second.hosts, second.dtype) == (("node02",), "fp32")


def test_a_host_that_nothing_fits_gets_the_reason_in_place_of_a_stack():
    (advice,) = recommend(Cluster((replace(clean(), pythons=()),), rows=ROWS))
    assert (advice.row, advice.python) == ("", "")
    assert advice.verdict.startswith("no stack fits: ")
    assert "Python none" in advice.verdict


def test_a_processor_below_avx2_is_to_be_left_out():
    (advice,) = recommend(Cluster((flags("sse sse2")(clean()),), rows=ROWS))
    assert advice.verdict.startswith("no AVX2: leave this host out")


def test_two_kinds_of_architecture_get_a_stack_each(facts):
    arm = replace(facts["Neoverse V1"], host="node02")
    first, second = recommend(Cluster((clean(), arm), rows=ROWS))
    assert (first.row, second.row) == (ROWS[0].name, ROWS[0].name)
    assert "no x86" in second.verdict
