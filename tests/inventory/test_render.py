"""Inventories written as a hostfile and for Ansible: they read the same again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from ipexctl.inventory.hostfile_formats import FORMS, group_members, render_inventory
from ipexctl.inventory.hostfile_text import parse_hostfile
from ipexctl.inventory.inventory import Host, Inventory
from tests.inventory.made import inventories, plain
from tests.inventory.test_ansible import ansible_inventory

HOSTS = Inventory(
    (
        Host("node1", slots=4),
        Host("node2", address="10.0.0.2"),
        Host("node3", user="ann", port=2222, groups=("web",)),
        Host("node4", slots=2, nic="ib0", root="/x", python="/bin/python3", groups=("db", "web")),
    ),
    "hf",
)
TEXTS = {
    "hostfile": (
        "node1 slots=4\nnode2 address=10.0.0.2\nnode3 port=2222 user=ann\n"
        "node4 python=/bin/python3 slots=2 nic=ib0 root=/x\n"
    ),
    "ansible": (
        "node1 slots=4\nnode2 ansible_host=10.0.0.2\nnode3 ansible_port=2222 ansible_user=ann\n"
        "node4 ansible_python_interpreter=/bin/python3 slots=2 nic=ib0 root=/x\n"
        "\n[db]\nnode4\n\n[web]\nnode3\nnode4\n"
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_hosts_in_every_format(form):
    assert render_inventory(HOSTS, form).text == TEXTS[form]


def test_what_a_hostfile_cannot_hold_is_said():
    hosts = Inventory((Host("a", vars=(("site", "east"),), groups=("web",)),), "hf")
    (note,) = render_inventory(hosts, "hostfile").notes
    assert ": groups, variables;" in note
    assert render_inventory(hosts, "ansible").notes == ()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(inventories())
def test_an_inventory_of_ansible_reads_the_same(hosts):
    assert plain(parse_hostfile(render_inventory(hosts, "ansible").text, "h")) == hosts.hosts


@settings(max_examples=60, deadline=None, derandomize=True)
@given(inventories(groups=False))
def test_a_hostfile_reads_the_same(hosts):
    assert plain(parse_hostfile(render_inventory(hosts, "hostfile").text, "h")) == hosts.hosts


def test_ansible_itself_reads_what_is_written_for_it(tmp_path):
    theirs = ansible_inventory(render_inventory(HOSTS, "ansible").text, tmp_path)
    assert list(theirs["hosts"]) == [h.name for h in HOSTS.hosts]
    assert theirs["hosts"]["node3"] == {"ansible_port": 2222, "ansible_user": "ann"}
    assert theirs["groups"] == {g: set(names) for g, names in group_members(HOSTS).items()}
