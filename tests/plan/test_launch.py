from dataclasses import replace

import pytest

from ipexctl.errors import InputError, RunFailed
from ipexctl.facts.interfaces_facts import Nic
from ipexctl.run.plan import rank_variables
from ipexctl.run.plan.launch import PlannedHost, RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from ipexctl.run.plan.ranks_per_host import share_out
from tests.made import facts, host, prepared


def node(name, *, slots=0, **kwargs):
    return PlannedHost(host(name, slots), facts(name, **kwargs), prepared())


THREE = [
    node("node01", address="10.0.0.1"),
    node("node02", address="10.0.0.2", nic="ens3"),
    node("node03", address="10.0.0.3"),
]


def request(n=None, ppn=None, **kwargs):
    return RunRequest(("train.py", "--epochs", "3"), n, ppn, **kwargs)


@pytest.mark.parametrize(
    ("slots", "n", "ppn", "expected"),
    [
        ((0, 0, 0), 4, 2, [2, 2, 0]),
        ((0, 0, 0), 7, None, [3, 2, 2]),
        ((4, 2, 1), 5, None, [4, 1, 0]),
        ((4, 2, 1), 3, 1, [1, 1, 1]),
    ],
)
def test_ranks_are_shared_out_in_the_order_of_the_hostfile(slots, n, ppn, expected):
    nodes = [node(f"n{i}", slots=s) for i, s in enumerate(slots)]
    assert share_out(nodes, request(n, ppn)) == expected


@pytest.mark.parametrize(
    ("n", "ppn", "slug", "value"),
    [
        (7, 2, "ranks-do-not-fit", "-n 7"),
        (0, None, "rank-count-too-small", "-n 0"),
        (None, 0, "rank-count-too-small", "-ppn 0"),
    ],
)
def test_numbers_that_cannot_be_are_refused_with_the_reason(n, ppn, slug, value):
    with pytest.raises(InputError) as e:
        share_out(THREE, request(n, ppn))
    assert e.value.slug == slug and value in e.value.what


def test_the_plan_of_three_hosts_is_whole():
    made = make_launch_plan(THREE, request(6, 2), "r1")
    prefix = "/home/trainer/.ipexctl/envs/abc"
    assert made.master_addr == "10.0.0.1"
    assert made.master_port == 29500
    assert made.machinefile == "node01:2\nnode02:2\nnode03:2\n"
    assert made.mpirun == (
        f"{prefix}/bin/mpirun", "-genvnone", "-bootstrap", "ssh",
        "-bootstrap-exec", "/home/trainer/.ipexctl/runs/r1/bootstrap", "-iface", "eth0",
        "-machinefile", "/home/trainer/.ipexctl/runs/r1/hosts", "-n", "6",
        "/bin/sh", "-c", 'exec "$IPEXCTL_PYTHON" -IS "$IPEXCTL_PROGRAMS/rank.pyc"',
    )  # fmt: skip
    assert [h.nic for h in made.hosts] == ["eth0", "ens3", "eth0"]
    second = made.hosts[1]
    assert dict(second.env) == {
        "I_MPI_ROOT": prefix,
        "I_MPI_PIN": "0",
        "PATH": f"{prefix}/bin:/usr/bin:/bin",
    }
    assert rank_variables.compose_rank_variables(made, second, second.ranks[1]) == {
        "OMP_NUM_THREADS": "2",
        "GLOO_SOCKET_IFNAME": "ens3",
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": "ens3",
        "PYTHONUNBUFFERED": "1",
        "IPEXCTL_BACKEND": "gloo",
        "RANK": "3",
        "WORLD_SIZE": "6",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29500",
        "GROUP_RANK": "1",
        "NODE_RANK": "1",
        "GROUP_WORLD_SIZE": "3",
        "ROLE_NAME": "default",
        "ROLE_RANK": "3",
        "ROLE_WORLD_SIZE": "6",
        "LOCAL_SIZE": "2",
        "TORCHELASTIC_RUN_ID": "r1",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "LT_DEVICES": "2",
        "LT_NUM_NODES": "3",
    }
    assert second.ranks[1].cpus == (2, 3)


def test_an_address_that_no_interface_has_is_refused():
    there = node("node02", address="10.0.0.2")
    net = replace(there.facts.net, ssh_address="10.0.0.9")
    behind_nat = replace(there, facts=replace(there.facts, net=net))
    with pytest.raises(RunFailed) as e:
        make_launch_plan([THREE[0], behind_nat], request(2), "r1")
    assert e.value.slug == "address-without-interface" and "10.0.0.9" in e.value.what


def _by_link_local(*addresses):
    """A host that SSH reaches by fe80::2%eth0, where that interface has `addresses` too."""
    there = node("node02")
    net = replace(
        there.facts.net,
        ssh_address="fe80::2",
        ssh_nic="eth0",
        nics=(Nic("eth0", True, 1500, addresses),),
    )
    return replace(there, facts=replace(there.facts, net=net))


def test_a_host_that_is_reached_by_a_link_local_address_has_another_one_for_the_others():
    made = make_launch_plan([_by_link_local("2001:db8::2", "10.0.0.2"), THREE[0]], request(2), "r1")
    assert (made.master_addr, made.hosts[0].nic) == ("10.0.0.2", "eth0")


def test_a_host_that_has_a_link_local_address_alone_is_refused_for_that():
    with pytest.raises(RunFailed) as caught:
        make_launch_plan([THREE[0], _by_link_local()], request(2), "r1")
    assert caught.value.slug == "address-link-local" and "fe80::2" in caught.value.what
    assert "NAT" not in caught.value.why and "eth0" in caught.value.why


def test_names_that_mpirun_would_read_as_its_own_get_a_label():
    nodes = [node("user@[::1]:22"), node("node02", address="10.0.0.2")]
    assert make_launch_plan(nodes, request(2), "r1").machinefile == "0-host:1\nnode02:1\n"
