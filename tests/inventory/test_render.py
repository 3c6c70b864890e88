"""Hostfiles for other programs: what they say, and that they say the same when read again."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given, settings

from ipexctl.inventory.hostfile_formats import FORMS, members, plain, render
from ipexctl.inventory.hostfile_text import parse_hostfile, parse_hosts
from ipexctl.inventory.inventory import Host, Inventory
from tests.inventory.made import inventories
from tests.inventory.test_ansible import ansible_inventory
from tests.refused import refused

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
    "intelmpi": "node1:4\n10.0.0.2\nnode3\nnode4:2\n",
    "mpich": "node1:4\n10.0.0.2\nnode3\nnode4:2\n",
    "openmpi": "node1 slots=4\n10.0.0.2\nnode3\nnode4 slots=2\n",
    "deepspeed": "node1 slots=4\n10.0.0.2 slots=1\nnode3 slots=1\nnode4 slots=2\n",
    "ipexrun": "node1\n10.0.0.2\nnode3\nnode4\n",
    "slurm": "node[1-4]\n",
    "hostfile": (
        "node1 slots=4\nnode2 address=10.0.0.2\nnode3 port=2222 user=ann\n"
        "node4 python=/bin/python3 slots=2 nic=ib0 root=/x\n"
    ),
    "yaml": (
        "hosts:\n  node1: {slots: 4}\n"
        '  node2: {address: "10.0.0.2"}\n'
        "  node3: {port: 2222, user: ann}\n"
        '  node4: {python: "/bin/python3", slots: 2, nic: ib0, root: "/x"}\n'
        "groups:\n  db: [node4]\n  web: [node3, node4]\n"
    ),
    "ansible": (
        "node1 slots=4\nnode2 ansible_host=10.0.0.2\nnode3 ansible_port=2222 ansible_user=ann\n"
        "node4 ansible_python_interpreter=/bin/python3 slots=2 nic=ib0 root=/x\n"
        "\n[db]\nnode4\n\n[web]\nnode3\nnode4\n"
    ),
    "ansible-yaml": (
        "all:\n  hosts:\n    node1: {slots: 4}\n"
        '    node2: {ansible_host: "10.0.0.2"}\n'
        "    node3: {ansible_port: 2222, ansible_user: ann}\n"
        '    node4: {ansible_python_interpreter: "/bin/python3", slots: 2, nic: ib0, root: "/x"}\n'
        "  children:\n    db:\n      hosts:\n        node4:\n"
        "    web:\n      hosts:\n        node3:\n        node4:\n"
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_hosts_for_every_program(form):
    assert render(HOSTS, form).text == TEXTS[form]


@pytest.mark.parametrize(
    ("form", "notes"),
    [
        (
            "mpich",
            (
                "user and port of node3 are lost: put them in ssh_config",
                "lost in this format: python, nic, root, groups",
            ),
        ),
        (
            "slurm",
            (
                "user and port and address of node[2-3] are lost: put them in ssh_config",
                "lost in this format: python, slots, nic, root, groups",
            ),
        ),
        ("yaml", ()),
        ("ansible", ()),
    ],
)
def test_what_is_lost_is_said(form, notes):
    assert {*render(HOSTS, form).notes} == {*notes}


def test_programs_with_needs_of_their_own_are_told_of():
    hosts = parse_hosts(("a", "b:2"))
    (note,) = render(hosts, "deepspeed").notes
    assert " a: " in note and note.endswith(" slots=1")
    lost, first_line = render(hosts, "ipexrun").notes
    assert lost.endswith(": slots") and first_line.startswith("ipexrun ")
    assert render(parse_hosts(("10.0.0.1",)), "ipexrun").notes == ()


@pytest.mark.parametrize("form", ["intelmpi", "mpich"])
def test_an_ipv6_address_is_refused_where_a_colon_means_slots(form):
    with refused("address-not-writable", "fe80::1"):
        render(parse_hosts(("a", "fe80::1")), form)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(inventories())
@pytest.mark.parametrize("form", ["yaml", "ansible", "ansible-yaml"])
def test_what_is_written_in_full_reads_the_same(form, hosts):
    name = "h.yaml" if "yaml" in form else "h"
    assert plain(parse_hostfile(render(hosts, form).text, name)) == hosts.hosts


def test_variables_are_lost_where_a_format_has_none():
    hosts = Inventory((Host("a", vars=(("site", "east"),)),), "hf")
    (note,) = render(hosts, "hostfile").notes
    assert note.endswith(": variables")
    assert render(hosts, "ansible").notes == ()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(inventories(groups=False))
def test_a_hostfile_reads_the_same(hosts):
    assert plain(parse_hostfile(render(hosts, "hostfile").text, "h")) == hosts.hosts


@settings(max_examples=60, deadline=None, derandomize=True)
@given(inventories(groups=False, v6=False))
@pytest.mark.parametrize("form", ["intelmpi", "mpich", "openmpi", "deepspeed", "ipexrun"])
def test_hostfiles_of_programs_read_the_same_but_for_what_is_lost(form, hosts):
    bare = tuple(Host(h.name, slots=min(h.slots, 999)) for h in hosts.hosts)
    found = plain(parse_hostfile(render(replace(hosts, hosts=bare), form).text, "h"))
    if form == "deepspeed":
        bare = tuple(replace(h, slots=h.slots or 1) for h in bare)
    if form == "ipexrun":
        bare = tuple(replace(h, slots=0) for h in bare)
    assert found == bare


@settings(max_examples=60, deadline=None, derandomize=True)
@given(inventories(groups=False))
def test_a_nodelist_of_slurm_names_the_same_hosts(hosts):
    names = parse_hosts((render(hosts, "slurm").text.strip(),)).hosts
    assert {h.name for h in names} == {h.name for h in hosts.hosts}


@pytest.mark.parametrize("form", ["ansible", "ansible-yaml"])
def test_ansible_itself_reads_what_is_written_for_it(form, tmp_path):
    theirs = ansible_inventory(render(HOSTS, form).text, tmp_path)
    assert list(theirs["hosts"]) == [h.name for h in HOSTS.hosts]
    assert theirs["hosts"]["node3"] == {"ansible_port": 2222, "ansible_user": "ann"}
    assert theirs["groups"] == {g: set(names) for g, names in members(HOSTS).items()}


@pytest.mark.parametrize("form", ["intelmpi", "mpich"])
def test_mpiexec_of_hydra_takes_its_hostfile(form, tmp_path):
    """Only reads it: nothing is started on hosts that aren't there."""
    mpiexec = shutil.which("mpiexec.hydra", path=os.environ.get("MPI_BIN"))
    if not mpiexec:
        pytest.skip("there is no mpiexec.hydra; MPI_BIN names its folder")
    file = tmp_path / "hosts"
    file.write_text(render(parse_hosts(("localhost:2",)), form).text)
    done = subprocess.run(
        [mpiexec, "-f", file, "-n", "2", "echo", "here"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "here\nhere\n")
