"""No false alarm on machines that are well, and the right advice for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.doctor.checks import run_all
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.recommendations import recommend_settings
from ipexctl.facts import host_facts as of
from ipexctl.facts import isa, processors
from ipexctl.facts.facts import Facts
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent import Agent
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.probe_host import probe_facts
from ipexctl.machines.wire.transport import LocalTransport
from ipexctl.run.plan import launch, launch_plan
from tests import made
from tests.checks.hosts import ROWS, both, clean, flags, part, three, two_nodes, whole
from tests.facts.machines import AVX512, V2
from tests.facts.real import REAL, Real


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    agent = start_host_agent(LocalTransport(), Host("here", local=True))
    yield agent
    agent.close()


@pytest.fixture(scope="module")
def facts(agent, tmp_path_factory) -> dict[str, Facts]:
    return {
        name: _probed(agent, real, tmp_path_factory.mktemp("tree")) for name, real in REAL.items()
    }


def _probed(agent: Agent, real: Real, tree: Path) -> Facts:
    """What is recorded comes from the tree; what only a live host can tell is a clean host's."""
    own = probe_facts(agent, fs=str(real.machine.write(tree)))
    return replace(
        clean(),
        kernel=real.kernel,
        cpu=replace(own.cpu, arch=real.arch),
        mem=own.mem,
        nodes=own.nodes,
        nodes_contradict=own.nodes_contradict,
        condition=replace(
            own.condition, limits=clean().condition.limits, system=clean().condition.system
        ),
    )


@pytest.mark.parametrize("name", REAL)
def test_it_has_the_shape_the_level_and_the_name_it_is_known_for(facts, name):
    real, own = REAL[name], facts[name]
    sockets = {c.socket for c in own.cpu.cpus}
    assert (
        len(own.cpu.cpus),
        of.count_usable_cores(own),
        len(sockets),
        len(own.nodes),
    ) == real.shape
    assert isa.cpu_level(own.cpu) == real.level
    assert processors.find_processor(own.cpu).name == real.processor


@pytest.mark.parametrize("name", REAL)
def test_nothing_is_said_about_it_but_what_its_fixture_names(facts, name):
    found = run_all(CheckedHosts((facts[name],), rows=ROWS))
    assert sorted((f.id, f.severity.value) for f in found) == sorted(REAL[name].seen)


@pytest.mark.parametrize("name", REAL)
def test_the_advice_is_right_and_says_why(facts, name):
    (advice,) = recommend_settings(CheckedHosts((facts[name],), rows=ROWS))
    real = REAL[name]
    assert (advice.dtype, advice.ranks, advice.threads) == real.advice
    assert [words for words in real.reasons if words not in "\n".join(advice.why)] == []
    assert (advice.verdict, advice.row) == (real.verdict, ROWS[0].name)


@pytest.mark.parametrize("name", [n for n, real in REAL.items() if real.arch == "x86_64"])
def test_a_run_without_numbers_does_what_the_advice_says(facts, name):
    own = facts[name]
    node = launch.PlannedHost(made.host("node01"), own, made.prepared())
    request = launch.RunRequest(("train.py",))
    (planned,) = launch_plan.make_launch_plan([node], request, "20261120-1").hosts
    threads = dict(planned.rank_env)["OMP_NUM_THREADS"]
    assert (len(planned.ranks), int(threads)) == REAL[name].advice[1:]


# --- groups of hosts -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vendor", "ids", "name", "expected"),
    [
        ("GenuineIntel", (6, 143, 8), "Intel(R) Xeon(R) Platinum 8480+", "Sapphire Rapids"),
        ("GenuineIntel", (6, 143, 8), "Intel(R) Xeon(R) CPU Max 9480", "Xeon Max"),
        ("GenuineIntel", (6, 207, 2), "Intel(R) Xeon(R) Processor", "Emerald Rapids"),
        ("GenuineIntel", (6, 173, 1), "Intel(R) Xeon(R) 6980P", "Granite Rapids"),
        ("GenuineIntel", (6, 106, 6), "Intel(R) Xeon(R) Gold 6338", "Ice Lake-SP"),
        ("GenuineIntel", (6, 85, 7), "Intel(R) Xeon(R) Gold 6248", "Cascade Lake"),
        ("GenuineIntel", (6, 63, 2), "Intel(R) Xeon(R) CPU E5-2680 v3", "Haswell"),
        ("GenuineIntel", (6, 45, 7), "Intel(R) Xeon(R) CPU E5-2670", "Sandy Bridge"),
        ("GenuineIntel", (6, 250, 0), "Intel(R) Xeon(R)", ""),
        ("AuthenticAMD", (23, 1, 2), "AMD EPYC 7451 24-Core Processor", "EPYC Naples"),
        ("AuthenticAMD", (23, 49, 0), "AMD EPYC 7742 64-Core Processor", "EPYC Rome"),
        ("AuthenticAMD", (25, 1, 1), "AMD EPYC-Milan Processor", "EPYC Milan"),
        ("AuthenticAMD", (25, 17, 1), "AMD EPYC 9654 96-Core Processor", "EPYC Genoa"),
        ("AuthenticAMD", (25, 160, 2), "AMD EPYC 9754 128-Core Processor", "EPYC Bergamo"),
        ("AuthenticAMD", (26, 2, 1), "AMD EPYC 9755 128-Core Processor", "EPYC Turin"),
        ("AuthenticAMD", (26, 17, 0), "AMD EPYC 9965 192-Core Processor", "EPYC Turin Dense"),
        ("AuthenticAMD", (25, 97, 2), "AMD Ryzen 9 7950X", "Zen 4"),
        ("0x41", (8, 0xD4F, 1), "", "Neoverse V2"),
        ("", (6, 143, 8), "QEMU Virtual CPU", ""),
    ],
)
def test_a_processor_is_called_as_people_call_its_generation(vendor, ids, name, expected):
    family, model, stepping = ids
    cpu = replace(
        made.cpu(), vendor=vendor, family=family, model=model, stepping=stepping, model_name=name
    )
    assert processors.processor_generation(cpu) == expected


def test_equal_hosts_get_one_advice():
    (advice,) = recommend_settings(CheckedHosts(three(), rows=ROWS))
    assert advice.hosts == ("node01", "node02", "node03")


_HIDDEN_AMX = flags(AVX512 + " avx512_bf16 hypervisor", model=143)


def _half(quota: float | None):
    return both(two_nodes(), part("cpu", quota=quota))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (_half(1.2), _half(1.9), ["1.2 CPUs fill no more", "1.9 CPUs fill no more"]),
        (part("cpu", quota=2.5), part("cpu", quota=2.1), ["allows 2.5 CPUs", "allows 2.1 CPUs"]),
        (
            both(two_nodes(), whole(nodes=(), nodes_contradict=True)),
            two_nodes(),
            ["contradicts itself", "2 ranks per host: one per NUMA node"],
        ),
        (part("cpu", allowed=(0, 1, 2, 3)), part("cpu", quota=64.0), [""]),
    ],
)
def test_a_reason_of_one_hosts_control_group_is_not_told_of_another(one, other, expected):
    found = recommend_settings(CheckedHosts(three(node01=one, node02=other, node03=one), rows=ROWS))
    assert len(found) == len(expected)
    for advice, words in zip(found, expected, strict=True):
        assert words in "; ".join(advice.why)


def test_hosts_without_bf16_are_named_to_those_that_have_it():
    hosts = three(node02=flags(AVX512))
    first, second = recommend_settings(CheckedHosts(hosts, rows=ROWS))
    assert (first.hosts, first.dtype) == (("node01", "node03"), "fp32")  # one for all ranks
    assert "node02" in first.why[0] and "AMX" in first.why[0]
    assert (second.hosts, second.dtype) == (("node02",), "fp32")


def test_a_guest_that_hides_bf16_is_not_told_that_its_processor_lacks_it():
    guest = flags(AVX512 + " hypervisor", model=143)
    (alone,) = recommend_settings(CheckedHosts((guest(clean()),), rows=ROWS))
    assert alone.dtype == "fp32"
    assert all(word in alone.why[0] for word in ("virtual", "AMX", "Sapphire Rapids", "CPU-005"))
    first, _ = recommend_settings(CheckedHosts(three(node02=guest), rows=ROWS))
    assert "node02 hides bf16" in first.why[0] and "CPU-005" in first.why[0]


def test_a_guest_that_hides_amx_alone_trains_in_bf16_and_is_told_what_it_misses():
    (advice,) = recommend_settings(CheckedHosts((_HIDDEN_AMX(clean()),), rows=ROWS))
    assert advice.dtype == "bf16"
    assert all(word in advice.why[0] for word in ("virtual", "hides AMX", "(CPU-005)"))


def test_a_host_that_nothing_fits_gets_the_reason_in_place_of_a_stack():
    (advice,) = recommend_settings(CheckedHosts((replace(clean(), pythons=()),), rows=ROWS))
    assert (advice.row, advice.python) == ("", "")
    assert "Python none" in advice.verdict


def test_a_processor_that_no_stack_runs_on_is_to_be_left_out():
    (advice,) = recommend_settings(CheckedHosts((flags("sse sse2")(clean()),), rows=ROWS))
    assert advice.row == ""
    assert "cx16, popcnt" in advice.verdict


def test_a_processor_below_avx2_gets_a_stack_and_is_said_to_be_slow():
    (advice,) = recommend_settings(CheckedHosts((flags(V2 + " avx")(clean()),), rows=ROWS))
    assert advice.row == ROWS[0].name
    assert advice.verdict.startswith("no AVX2")


def test_two_kinds_of_architecture_get_a_stack_each(facts):
    arm = replace(facts["Neoverse V1"], host="node02")
    first, second = recommend_settings(CheckedHosts((clean(), arm), rows=ROWS))
    assert (first.row, second.row) == (ROWS[0].name, ROWS[0].name)
    assert "not x86" in second.verdict
