"""What a hostfile says about one host reaches the place where it counts."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from ipexctl.errors import RunFailed
from ipexctl.facts.interfaces_facts import Nic
from ipexctl.inventory.inventory import Host
from ipexctl.machines.agent_start import start_host_agent
from ipexctl.machines.probe_host import probe_facts
from ipexctl.machines.ssh.config import SshConfig
from ipexctl.machines.target import root_of
from ipexctl.machines.wire.transport import LocalTransport
from ipexctl.run.plan.launch import PlannedHost, RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from tests.made import facts, prepared

CONFIG = """\
Host 10.0.0.* gate
  User of-address
  Port 2200
Host node1
  User of-name
"""


def test_ssh_is_asked_about_the_address_and_the_name_stays(tmp_path):
    (tmp_path / "config").write_text(CONFIG)
    hosts = [
        Host("node1"),
        Host("node2", address="10.0.0.2"),
        Host("node3", address="10.0.0.2", port=22, user="ann"),
        Host("node4", address="gate"),
    ]
    answers = SshConfig(tmp_path / "config").answers(hosts)
    assert [(a.name, a.hostname, a.user, a.port) for a in (answers[h] for h in hosts)] == [
        ("node1", "node1", "of-name", 22),
        ("node2", "10.0.0.2", "of-address", 2200),
        ("node3", "10.0.0.2", "ann", 22),
        ("node4", "gate", "of-address", 2200),
    ]


def two(nic: str) -> list[PlannedHost]:
    found = []
    for name, last in (("a", 1), ("b", 2)):
        seen = facts(name, address=f"10.0.0.{last}")
        nics = (
            *seen.net.nics,
            Nic("ib0", True, 2044, (f"fe80::{last}", f"192.168.0.{last}")),
            Nic("ib1", False, 2044, ()),
        )
        seen = replace(seen, net=replace(seen.net, nics=nics))
        found.append(PlannedHost(Host(name, nic=nic), seen, prepared()))
    return found


@pytest.mark.parametrize(
    ("nic", "expected"), [("", ("eth0", "10.0.0.1")), ("ib0", ("ib0", "192.168.0.1"))]
)
def test_a_run_goes_over_the_interface_of_the_hostfile(nic, expected):
    made = make_launch_plan(two(nic), RunRequest(("train.py",), 2), "r1")
    assert {(h.nic, made.master_addr) for h in made.hosts} == {expected}


@pytest.mark.parametrize(
    ("nic", "what"),
    [
        ("ib9", "a: there is no network interface ib9"),
        ("ib1", "a: the network interface ib1 is down or has no address"),
    ],
)
def test_an_interface_that_is_of_no_use_is_refused(nic, what):
    with pytest.raises(RunFailed, match=what):
        make_launch_plan(two(nic), RunRequest(("train.py",), 2), "r1")


def test_a_root_of_its_own_goes_before_that_of_the_command(tmp_path):
    host = Host("here", local=True, root=str(tmp_path / "mine"))
    agent = start_host_agent(LocalTransport(), host)
    try:
        assert probe_facts(agent, root_of(host, "~/.ipexctl")).disk.root == str(tmp_path / "mine")
    finally:
        agent.close()


@pytest.mark.lab
def test_doctor_knows_hosts_by_the_names_of_a_yaml_inventory(lab3, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    inventory = tmp_path / "hosts.yaml"
    inventory.write_text(
        "vars: {root: ~/other}\n"
        "hosts:\n"
        "  alpha: {address: node01}\n"
        "  beta: {address: node02, python: /usr/bin/python3}\n"
        "  gone: {address: 127.0.0.1, port: 1}\n"
        "groups: {pair: [alpha, beta]}\n"
    )

    def doctor(*limit: str) -> dict[str, dict]:
        argv = ["doctor", "-f", str(inventory), "-F", str(lab3.ssh_config), "--json", *limit]
        done = subprocess.run(
            [sys.executable, "-m", "ipexctl", *argv], capture_output=True, text=True, timeout=120
        )
        return {h["name"]: h for h in json.loads(done.stdout)["hosts"]}

    seen = doctor()
    states = {name: host["state"] for name, host in seen.items()}
    assert states.pop("gone") == "unreachable"
    assert states.keys() == {"alpha", "beta"} and set(states.values()) <= {"ok", "warn"}
    assert seen["alpha"]["facts"]["net"]["hostname"] == "node01"
    assert {h["facts"]["disk"]["root"].rpartition("/")[2] for h in seen.values() if h["facts"]} == {
        "other"
    }
    assert [*doctor("-l", "@last-failed")] == ["gone"]
    assert [*doctor("-l", "@healthy:!beta")] == ["alpha"]
    assert [*doctor("-l", "@pair")] == ["alpha", "beta"]
