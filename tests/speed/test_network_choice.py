"""Which network ranks use: those that all hosts have, their rates, and what the user says."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.facts.facts import Facts
from ipexctl.facts.interfaces_facts import Nic, Route
from ipexctl.facts.other_runs_facts import LiveRun
from ipexctl.inventory.inventory import Host
from ipexctl.lab.cluster.lab_spec import HostSpec, LabSpec, parse_hosts
from ipexctl.local.run_options import RunOptions
from ipexctl.run.command.plan_text import plan_document, plan_lines
from ipexctl.run.gather_plan import Planned
from ipexctl.run.network import measure_networks, rate_cache
from ipexctl.run.network.measure_networks import NetworkRates, decide_network
from ipexctl.run.network.network_choice import (
    ROUTED,
    NetworkCandidates,
    choose_fastest_network,
    find_candidate_networks,
)
from ipexctl.run.plan import interface_choice
from ipexctl.run.plan.launch import PlannedHost, RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from ipexctl.run.run_plan import choose_run_network
from tests import made
from tests.refused import refused

MBIT = 1e6
ETH0, ETH1, IB0 = "10.0.0.0/24", "10.1.0.0/24", "10.2.0.0/24"
TWO_NICS = {"eth0": ETH0, "eth1": ETH1}


def on(number: int, nics: Mapping[str, str], *, ssh: str = "eth0", **change) -> PlannedHost:
    """Host number N has the address N in each network; the name of an interface may end with *:
    it is down."""
    found, routes, own = [], [], ""
    for name, network in nics.items():
        address = network.rpartition(".")[0] + f".{number}"
        nic = Nic(name.strip("*"), not name.endswith("*"), 1500, (address,))
        found.append(replace(nic, **change) if name == "eth1" else nic)
        routes.append(Route(nic.name, network))
        own = address if nic.name == ssh else own
    loopback = Nic("lo", True, 65536, ("127.0.0.1", "::1"))
    like = made.facts(f"node{number:02d}", address=own)
    net = replace(like.net, nics=(loopback, *found), routes=(Route(ssh, "0.0.0.0/0"), *routes))
    return _node(replace(like, net=net))


def _node(facts: Facts, **host: str) -> PlannedHost:
    return PlannedHost(Host(facts.host, **host), facts, made.prepared())


def two(
    nics: Mapping[str, str] = TWO_NICS, other: Mapping[str, str] | None = None
) -> list[PlannedHost]:
    return [on(1, nics), on(2, nics if other is None else other)]


def found(nodes: list[PlannedHost] | None = None) -> NetworkCandidates:
    made_of = find_candidate_networks(nodes or two())
    assert made_of
    return made_of


def addresses(node: PlannedHost, *more: str) -> PlannedHost:
    """With more addresses of eth0."""
    lo, eth0, *rest = node.facts.net.nics
    nics = (lo, replace(eth0, addresses=(*eth0.addresses, *more)), *rest)
    return replace(node, facts=replace(node.facts, net=replace(node.facts.net, nics=nics)))


# --- candidates: the usual network, and others ----------------------------------------------------

DOCKER = {"eth0": ETH0, "docker0": "172.17.0.0/16"}
CASES: dict[str, tuple[list[PlannedHost], list[str]]] = {
    "one network": (two({"eth0": ETH0}), []),
    "two networks": (two(), [ETH0, ETH1]),
    "names of interfaces may differ": (two(other={"ens3": ETH1, "eth0": ETH0}), [ETH0, ETH1]),
    "only some hosts are in it": ([*two(), on(3, {"eth0": ETH0})], []),
    "the second network is another one on each host": (two(other={"eth0": ETH0, "eth1": IB0}), []),
    "an interface is down": (two(other={"eth0": ETH0, "eth1*": ETH1}), []),
    "three networks": (two({**TWO_NICS, "ib0": IB0}), [ETH0, ETH1, IB0]),
    "of four, three are measured": (
        two({**TWO_NICS, "ib0": IB0, "eth3": "10.3.0.0/24"}), [ETH0, ETH1, IB0],
    ),
    "a bridge of containers": (two(DOCKER), []),
    "a bridge beside two networks": (two({**DOCKER, "eth1": ETH1}), [ETH0, ETH1]),
    "a point-to-point route of a cloud": (two({"eth0": ETH0, "eth1": "10.1.0.1/32"}), []),
    "link-local addresses": (two({"eth0": ETH0, "eth1": "169.254.0.0/16"}), []),
    "one host": ([on(1, TWO_NICS)], []),
    "hosts reached in different networks": (
        two({"eth0": ETH0, "ib0": IB0}, {"eth0": "10.0.1.0/24", "ib0": IB0}), [ROUTED, IB0],
    ),
    "a second address of the same interface": (
        [addresses(n, f"10.1.0.{i}") for i, n in enumerate(two({"eth0": ETH0}), 1)], [],
    ),
}  # fmt: skip


ONE = ["one network", "one host", "a second address of the same interface"]


@pytest.mark.parametrize("case", CASES)
def test_networks_of_all_hosts(case):
    nodes, names = CASES[case]
    made_of = find_candidate_networks(nodes)
    assert ([one.name for one in made_of.all] if made_of else []) == names
    ruled_out_quickly = not interface_choice.may_choose(nodes, set())
    assert not (ruled_out_quickly and names)
    assert ruled_out_quickly or case not in ONE


@pytest.mark.parametrize(
    ("nodes", "env"),
    [(two({"eth0": ETH0}), {}), (two(), {"GLOO_SOCKET_IFNAME": "eth1"}), ([on(1, TWO_NICS)], {})],
)
def test_then_nothing_is_imported(monkeypatch, nodes, env):
    for name in ("measure_networks", "network_choice", "rate_cache"):
        monkeypatch.setitem(sys.modules, f"ipexctl.run.network.{name}", None)
    options = RunOptions("t.py", env=env)
    assert choose_run_network(None, nodes, options, None, pytest.fail) == (nodes, None)


def test_the_fastest_cards_are_among_those_measured():
    fast = {"eth3": "10.3.0.0/24", "ib0": IB0, "eth1": ETH1, "eth0": ETH0}
    nodes = [on(1, fast, speed=100_000), on(2, fast, speed=100_000)]
    assert [one.name for one in found(nodes).all][:2] == [ETH0, ETH1]


def test_two_hosts_with_one_address_are_not_connected_by_it():
    nodes = [on(1, TWO_NICS), replace(on(1, TWO_NICS), host=Host("node02"))]
    assert find_candidate_networks(nodes) is None


# --- what the user says ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(interface_choice.CHOOSE))
def test_a_variable_of_the_user_chooses(name):
    assert interface_choice.may_choose(two(), {"HF_HOME"})
    assert not interface_choice.may_choose(two(), {name, "HF_HOME"})


def test_nic_of_the_hostfile_chooses():
    first, second = two()
    assert not interface_choice.may_choose([first, _node(second.facts, nic="eth0")], set())


# --- the decision ---------------------------------------------------------------------------------

RATES: dict[str, tuple[dict[str, float], str]] = {
    "faster": ({ETH0: 94, ETH1: 940}, ETH1),
    "just fast enough": ({ETH0: 100, ETH1: 150}, ETH1),
    "hardly faster": ({ETH0: 100, ETH1: 149}, ETH0),
    "a tie": ({ETH0: 940, ETH1: 940, IB0: 940}, ETH0),
    "a tie of two others": ({ETH0: 94, ETH1: 940, IB0: 940}, ETH1),
    "the fastest of two": ({ETH0: 94, ETH1: 940, IB0: 9400}, IB0),
    "slower": ({ETH0: 940, ETH1: 94}, ETH0),
    "the usual one is not measured": ({ETH1: 940}, ETH0),
    "the other one is not measured": ({ETH0: 94, IB0: 100}, ETH0),
    "one of two others is not measured": ({ETH0: 94, IB0: 940}, IB0),
    "nothing is measured": ({}, ETH0),
}


@pytest.mark.parametrize(("rates", "name"), RATES.values(), ids=RATES)
def test_decision(rates, name):
    chosen = choose_fastest_network(
        found(two({**TWO_NICS, "ib0": IB0})), {k: v * MBIT for k, v in rates.items()}
    )
    assert chosen.taken.name == name
    assert bool(chosen.note) == (name != ETH0)
    (used,) = (row["network"] for row in chosen.document() if row["used"])
    assert used == name


def test_the_note_has_both_interfaces_and_rates():
    note = choose_fastest_network(found(), {ETH0: 94 * MBIT, ETH1: 940 * MBIT}).note
    assert note == f"ranks use eth1 ({ETH1}): 940 Mbit/s; eth0: 94 Mbit/s"


def test_explain_has_all_candidates_and_their_rates():
    nodes = two({**TWO_NICS, "ib0": IB0})
    chosen = choose_fastest_network(found(nodes), {ETH0: 94 * MBIT, ETH1: 940 * MBIT})
    made_plan = make_launch_plan(chosen.assign_network(nodes), RunRequest(("t.py",)), "r1")
    planned = Planned(made_plan, tuple(node.facts for node in nodes), chosen)
    shown = [line.plain.split() for line in plan_lines(planned)]
    rows = {
        words[0]: words[1:4] for words in shown if words and words[0] in ("eth0", "eth1", "ib0")
    }
    assert rows == {
        "eth0": [ETH0, "94", "Mbit/s"],
        "eth1": [ETH1, "940", "Mbit/s"],
        "ib0": [IB0, "not", "measured"],
    }
    assert plan_document(planned)["networks"] == chosen.document()
    assert plan_document(replace(planned, networks=None))["networks"] == []


def test_all_of_the_plan_follows_the_choice():
    nodes = two(other={"eth0": ETH0, "ens5": ETH1})
    mpich = replace(made.prepared().mpi, flavour="mpich", version="4.2.0")
    packages = (("torch", "2.7.0"), ("oneccl-bind-pt", "2.7.0+cpu"))
    ready = replace(made.prepared(), mpi=mpich, packages=packages)
    nodes = [replace(node, prepared=ready) for node in nodes]
    chosen = choose_fastest_network(found(nodes), {ETH0: 94 * MBIT, ETH1: 940 * MBIT})
    made_plan = make_launch_plan(chosen.assign_network(nodes), RunRequest(("t.py",)), "r1")
    assert made_plan.master_addr == "10.1.0.1"
    assert [host.nic for host in made_plan.hosts] == ["eth1", "ens5"]
    assert made_plan.mpirun[made_plan.mpirun.index("-iface") + 1] == "eth1"
    for host, nic in zip(made_plan.hosts, ("eth1", "ens5"), strict=True):
        variables = {**dict(host.env), **dict(host.rank_env)}
        for name in ("GLOO_SOCKET_IFNAME", "FI_TCP_IFACE", "CCL_KVS_IFACE", "UCX_NET_DEVICES"):
            assert variables[name] == nic
        assert "940 Mbit/s" in dict(host.reasons)["GLOO_SOCKET_IFNAME"]
    usual = make_launch_plan(nodes, RunRequest(("t.py",)), "r1")
    assert (usual.master_addr, {host.nic for host in usual.hosts}) == ("10.0.0.1", {"eth0"})


# --- what was measured before ---------------------------------------------------------------------


class Hosts:
    """Counts how often they are measured."""

    def __init__(self, rates: dict[str, float], error: str = "") -> None:
        self.said = NetworkRates({name: rate * MBIT for name, rate in rates.items()}, error)
        self.asked = 0
        self.notes: list[str] = []

    def __call__(self) -> NetworkRates:
        self.asked += 1
        return self.said

    def decide(self, nodes: list[PlannedHost] | None = None) -> str:
        return decide_network(found(nodes), self, self.notes.append).taken.name


@pytest.fixture
def file(monkeypatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return rate_cache.NETWORKS.path


def test_a_second_run_measures_nothing(file):
    hosts = Hosts({ETH0: 94, ETH1: 940})
    assert [hosts.decide() for _ in range(3)] == [ETH1] * 3
    assert (hosts.asked, len(hosts.notes)) == (1, 3)
    assert file.stat().st_mode & 0o777 == 0o600


def _change(node: PlannedHost, **change) -> PlannedHost:
    return replace(node, facts=replace(node.facts, **change))


CHANGES = {
    "booted": [_change(on(1, TWO_NICS), boot_id="another"), on(2, TWO_NICS)],
    "MTU": [on(1, TWO_NICS), on(2, TWO_NICS, mtu=9000)],
    "speed": [on(1, TWO_NICS), on(2, TWO_NICS, speed=1000)],
    "address": [on(1, TWO_NICS), on(3, TWO_NICS)],
    "one more host": [*two(), on(3, TWO_NICS)],
}


@pytest.mark.parametrize("nodes", CHANGES.values(), ids=CHANGES)
def test_changed_hosts_are_measured_again(file, nodes):
    hosts = Hosts({ETH0: 94, ETH1: 940})
    hosts.decide()
    hosts.decide(nodes)
    assert hosts.asked == 2
    hosts.decide()
    hosts.decide(nodes)
    assert hosts.asked == 2


def test_rates_count_whatever_network_ssh_uses(file):
    hosts = Hosts({ETH0: 94, ETH1: 940})
    nodes = [on(1, TWO_NICS, ssh="eth1"), on(2, TWO_NICS, ssh="eth1")]
    assert [hosts.decide(), hosts.decide(nodes)] == [ETH1] * 2
    assert (hosts.asked, len(hosts.notes)) == (1, 1)


def test_interfaces_that_are_no_candidates_change_nothing(file):
    hosts = Hosts({ETH0: 94, ETH1: 940})
    hosts.decide()
    hosts.decide(two({**TWO_NICS, "veth1": "10.9.0.0/24", "usb0*": "10.8.0.0/24"}))
    assert hosts.asked == 1


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "\udcff", '{"measured": 1}', '{"measured": {"MARK": 1}}',
        '{"measured": {"MARK": {"complete": true, "rates": [1]}}}',
        '{"measured": {"MARK": {"at": "x", "rates": {}}}}', "[" * 100_000,
    ],
)  # fmt: skip
def test_a_damaged_file_is_as_good_as_none(file, text):
    file.parent.mkdir(0o700, parents=True)
    file.write_bytes(text.replace("MARK", found().mark).encode("utf-8", "surrogateescape"))
    hosts = Hosts({ETH0: 94, ETH1: 940})
    assert [hosts.decide(), hosts.decide()] == [ETH1] * 2
    assert hosts.asked == 1


@pytest.mark.parametrize("rate", ["fast", -1, None, True, {"a": 1}])
def test_an_odd_rate_is_unknown(file, rate):
    file.parent.mkdir(0o700, parents=True)
    rates = {ETH0: 94 * MBIT, ETH1: rate}
    entry = {"complete": True, "rates": rates}
    file.write_text(json.dumps({found().mark: entry}))
    hosts = Hosts({})
    assert (hosts.decide(), hosts.asked) == (ETH0, 0)


@pytest.mark.parametrize("state", ["a file", "a folder of others"])
def test_without_a_file_all_is_measured_each_time(file, state):
    file.parents[1].mkdir()
    if state == "a file":
        file.parent.touch()
    else:
        file.parents[1].chmod(0o777)
    hosts = Hosts({ETH0: 94, ETH1: 940})
    assert [hosts.decide(), hosts.decide()] == [ETH1] * 2
    assert hosts.asked == 2


def test_the_file_is_bounded(file):
    memory = rate_cache.NETWORKS
    for number in range(memory.keep + 5):
        rate_cache.remember_rates(memory, f"m{number}", {ETH0: 1.0}, complete=True)
    assert len(json.loads(file.read_text())) == memory.keep
    assert rate_cache.recall_rates(memory, "m4") is None
    assert rate_cache.recall_rates(memory, "m5") == {ETH0: 1.0}


# --- what cannot be measured ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rates", "name", "missing"),
    [({}, ETH0, [ETH0, ETH1]), ({ETH1: 940}, ETH0, [ETH0]), ({ETH0: 94}, ETH0, [ETH1])],
)
def test_a_network_that_cannot_be_measured_is_noted_once(file, rates, name, missing):
    hosts = Hosts(rates, error="node01 to node02: no answer")
    assert [hosts.decide(), hosts.decide()] == [name] * 2
    (note,) = hosts.notes
    assert hosts.asked == 1 and all(one in note for one in (*missing, hosts.said.error))


def test_it_is_tried_again_after_a_while(file, monkeypatch):
    hosts = Hosts({ETH0: 94})
    hosts.decide()
    monkeypatch.setattr(rate_cache, "PART_KEPT", 0.0)
    hosts.decide()
    assert hosts.asked == 2


def test_what_is_measured_beside_other_runs_is_not_kept(file, monkeypatch):
    hosts = Hosts({ETH0: 94, ETH1: 940})
    monkeypatch.setattr(measure_networks, "_measure_networks", lambda *_: hosts())
    condition = two()[0].facts.condition
    runs = (LiveRun("r0", "trainer", own=True),)
    busy = replace(condition, load=replace(condition.load, runs=runs))
    nodes = [_change(node, condition=busy) for node in two()]
    for _ in range(2):
        measure_networks.choose_network(None, nodes, RunRequest(("t.py",)), hosts.notes.append)
    assert hosts.asked == 2 and not file.exists()


def test_hosts_without_ranks_are_not_asked(monkeypatch):
    monkeypatch.setattr(
        measure_networks, "_measure_networks", lambda *_: pytest.fail("was measured")
    )
    nodes = [*two(), on(3, {"eth0": ETH0})]
    request = RunRequest(("t.py",), n=1, ppn=1)
    assert measure_networks.choose_network(None, nodes, request, pytest.fail) is None


# --- practice hosts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "rates"),
    [("", ("", "")), ("1gbit", ("1gbit",) * 2), ("100mbit+1gbit", ("100mbit", "1gbit")),
     ("10mbit+", ("10mbit", ""))],
)  # fmt: skip
def test_interfaces_of_practice_hosts_have_rates_of_their_own(rate, rates):
    (host,) = parse_hosts(1, [f"node01:nic=eth0+eth1{',rate=' * bool(rate)}{rate}"])
    spec = LabSpec(hosts=(host,)).checked()
    assert spec.hosts[0].rates == rates
    assert LabSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize(
    ("spec", "slug"),
    [
        (HostSpec(rate="1gbit+1gbit"), "lab-nics-invalid"),
        (HostSpec(nics=("eth0", "eth1"), rate="1gbit+fast"), "bad-lab-value"),
    ],
)
def test_other_rates_are_refused(spec, slug):
    with refused(slug):
        LabSpec(hosts=(spec,)).checked()
