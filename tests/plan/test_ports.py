"""--ports: who gets which part of the range."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace

import pytest

from ipexctl.errors import HostFailed
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.wire.transport import LocalTransport
from ipexctl.run.plan.launch import LaunchPlan, PlannedHost, RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from ipexctl.run.plan.port_plan import FEWEST, read_ports, reserved_ports
from tests.made import facts, host, prepared
from tests.plan.asked import read_launch

RANGE = (40000, 40031)


def planned(flavour: str, version: str, *, env: tuple[tuple[str, str], ...] = ()) -> LaunchPlan:
    nodes = []
    for i, port in enumerate((40028, 40031), 1):
        there = replace(prepared(), port=port)
        assert there.mpi is not None
        there = replace(there, mpi=replace(there.mpi, flavour=flavour, version=version))
        made = facts(f"node0{i}", address=f"10.0.0.{i}")
        nodes.append(PlannedHost(host(f"node0{i}"), made, there))
    return make_launch_plan(nodes, RunRequest(("train.py",), 2, ports=RANGE, env=env), "r1")


def six_free() -> int:
    """The first of six ports that nobody has."""
    for low in range(21000, 30000, 6):
        try:
            for port in range(low, low + 6):
                socket.create_server(("", port)).close()
        except OSError:
            continue
        return low
    raise AssertionError


@pytest.mark.parametrize("size", [FEWEST, 17, 32, 101, 1000, 60000])
def test_the_upper_quarter_has_room_for_two_runs_and_most_is_left_for_mpi(size):
    low, high = read_ports(f"2000-{1999 + size}")
    first, last = reserved_ports((low, high))
    assert last == high
    assert (last + 1 - first) % 3 == 0
    assert 6 <= last + 1 - first <= max(6, size / 4)
    assert first - low >= 10


def test_what_mpis_take_from_the_low_end_ends_below_master_port():
    env = dict(planned("intel", "2021.18.1").hosts[0].env)
    named = {name: env[name] for name in env if "RANGE" in name.upper() or "UCX" in name}
    assert named == {
        "I_MPI_PORT_RANGE": "40000:40025",
        "MPIEXEC_PORT_RANGE": "40000:40025",
        "MPIR_CVAR_CH3_PORT_RANGE": "40000:40025",
        "FI_TCP_PORT_LOW_RANGE": "40000",
        "FI_TCP_PORT_HIGH_RANGE": "40025",
        "UCX_TCP_PORT_RANGE": "40000-40025",
        "OMPI_MCA_btl_tcp_port_range_v4": "26",
        "OMPI_MCA_btl_tcp_port_range_v6": "26",
    }


def test_ucx_of_mpich_keeps_to_the_interface_by_which_hosts_reach_each_other():
    assert dict(planned("mpich", "5.0.2").hosts[0].env)["UCX_NET_DEVICES"] == "eth0"


def test_a_host_names_a_port_with_two_free_ones_below_it(tmp_path):
    (tmp_path / "envs/abc/bin").mkdir(parents=True)
    (tmp_path / "envs/abc/bin/python").symlink_to(sys.executable)
    (tmp_path / "current").symlink_to("envs/abc")
    asked = {"root": str(tmp_path), "run_id": "r1"}
    low = six_free()
    with socket.create_server(("", low + 1)):
        agent = start_host_agent(LocalTransport(), Host("here", local=True))
        try:
            answer = agent.call("run.run_environment.find", {**asked, "ports": [low, low + 5]}).done
            with pytest.raises(HostFailed) as e:
                agent.call("run.run_environment.find", {**asked, "ports": [low, low + 2]})
            assert str(low) in e.value.what and str(low + 2) in e.value.what
        finally:
            agent.close()
    assert answer["port"] == low + 5


@pytest.mark.parametrize(
    ("version", "name", "word"),
    [("5.0.11", "PRTE", "--prtemca"), ("4.1.8", "OMPI", "--mca")],
)
def test_open_mpis_mpirun_and_each_daemon_have_a_port_of_their_own(version, name, word):
    made = planned("openmpi", version)
    assert made.master_port == 40028
    of_daemons = [dict(h.env)[f"{name}_MCA_oob_tcp_dynamic_ipv4_ports"] for h in made.hosts]
    assert of_daemons == ["40027", "40030"]
    assert f"{word} oob_tcp_dynamic_ipv4_ports 40026" in " ".join(made.mpirun)
    # it passes its own words on to its daemons
    program = "prted" if name == "PRTE" else "orted"
    asked = ("1-host", program, word, "oob_tcp_dynamic_ipv4_ports", '"40026"', word, "ess", "env")
    if name == "PRTE":
        asked = ("1-host", f"{made.hosts[0].mpi_bin}/prted", *asked[2:])
    assert read_launch(made, asked)[1][1:] == (word, "ess", "env")


def test_the_users_own_range_of_daemons_is_not_counted_down():
    name = "PRTE_MCA_oob_tcp_dynamic_ipv4_ports"
    made = planned("openmpi", "5.0.11", env=((name, "50000-50010"),))
    assert dict(made.hosts[1].env)[name] == "50000-50010"
    assert "ipv4_ports" not in " ".join(made.mpirun)
