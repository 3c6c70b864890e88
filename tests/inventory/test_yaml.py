"""Our YAML inventory, and YAML that means harm."""

from __future__ import annotations

import pytest

from ipexctl.base.place import Place
from ipexctl.base.yaml_nodes import read_yaml
from ipexctl.errors import InputError
from ipexctl.inventory.hostfile_text import parse_hostfile
from ipexctl.inventory.inventory import Host
from tests.inventory.made import plain

WHOLE = """\
vars: {user: trainer, python: /opt/py/bin/python3}
hosts:
  head:
  "node[01-02]": {slots: 4, nic: ib0}
  node03:
    address: 10.0.0.3
    port: 2222
    user: root
    root: /scratch/ipexctl
groups:
  fast: ["node[01-02]"]
  slow:
    vars: {slots: 1}
    hosts: [node03, old:2]
  both:
    groups:
      fast:
      slow:
"""


def test_every_key_of_a_yaml_inventory():
    py = "/opt/py/bin/python3"
    common = {"user": "trainer", "python": py}
    fast = {"slots": 4, "nic": "ib0", "groups": ("both", "fast"), **common}
    assert plain(parse_hostfile(WHOLE, "hosts.yaml")) == (
        Host("head", **common),
        Host("node01", **fast),
        Host("node02", **fast),
        Host(
            "node03",
            user="root",
            port=2222,
            address="10.0.0.3",
            python=py,
            root="/scratch/ipexctl",
            slots=1,
            groups=("both", "slow"),
        ),
        Host("old", slots=2, groups=("both", "slow"), **common),
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("- node1\n- node[2-3]\n", "node1 node2 node3"),
        ("- ann@node1:22\n- {name: node2, slots: 2}\n", "node1 node2"),
        ("hosts: node1\n", "node1"),
        ("hosts: [node1, node2]\n", "node1 node2"),
        ("---\nhosts:\n  node1:\n", "node1"),
        ('{"hosts": {"node1": {"slots": 2}}}', "node1"),
        ("hosts: &all [a, b]\ngroups: {g: *all}\n", "a b"),
    ],
)
def test_the_shapes_of_a_yaml_inventory(text, names):
    assert [h.name for h in parse_hostfile(text, "hf").hosts] == names.split()


def test_a_host_knows_its_line_and_column():
    found = parse_hostfile("hosts:\n  a:\n  'b': {slots: 2}\n", "h.yml")
    assert [h.place for h in found.hosts] == [Place("h.yml", 2, 3), Place("h.yml", 3, 3)]


def bomb() -> str:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    return "\n".join(levels)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "hosts:\n  a: {adress: b}\n",
            "h.yaml:2:15: 'adress' is not known (did you mean 'address'?)",
        ),
        ("hosts:\n  a: {slots: many}\n", "h.yaml:2:14: slots: 'many' is not a whole number"),
        ("hosts:\n  a: {slots: [1]}\n", "h.yaml:2:14: slots: expected a plain value"),
        ("hosts:\n  a:\n  a:\n", "h.yaml:3:3: duplicate key 'a'"),
        ("hosts: [a, a]\n", "h.yaml:1:12: 'a' is listed twice"),
        ("hosts:\n  a:2222:\n", "h.yaml:2:3: a:2222 may be a port or a number of ranks"),
        ("hosts:\n  -x:\n", "h.yaml:2:3: '-x' is not a host"),
        ("hots:\n  a:\n", "h.yaml:1:1: 'hots' is not a group (did you mean 'hosts'?)"),
        ("hosts: {u@a: {user: b}}\n", "h.yaml:1:21: user is set twice for host 'a'"),
        ("hosts:\n  a: [\n", "h.yaml:3:1: YAML syntax: "),
        ("a\n", "h.yaml:1:1: this is not an inventory"),
        ("", "h.yaml is empty"),
        ("hosts:\n", "h.yaml lists no hosts"),
        ("hosts: [[a]]\n", "h.yaml:1:9: a host is a name, or a mapping with a name"),
        ("hosts: {? [a] : b}\n", "h.yaml:1:11: expected a name before the colon"),
        ("hosts: *nothing\n", "h.yaml:1:8: "),
        ("hosts: &a [*a]\n", "h.yaml:1:12: "),
        ("hosts: !!python/name:os.system x\n", "h.yaml:1:8: unsupported YAML tag"),
        (
            "hosts: [a]\n---\nhosts: [b]\n",
            "h.yaml:2:1: an inventory can contain only one YAML document",
        ),
        ("hosts: [a\x07]\n", "h.yaml:1:10: "),
        ("hosts: [a\ud800]\n", "h.yaml:1:10: "),
        ("hosts: " + "[" * 500, "h.yaml:1:47: more than 40 levels of nesting"),
        (bomb(), None),
        ("hosts: [a]\n#" + "x" * (2 << 20), "h.yaml is larger than 1 MiB"),
        ("hosts:\n  node[1-99999]:\n", None),
        ("a: {<<: 3}\n", "h.yaml:1:9: << takes a mapping"),
    ],
)
def test_what_is_no_inventory_is_refused_with_its_place(text, what):
    with pytest.raises(InputError) as e:
        parse_hostfile(text, "h.yaml")
    assert what is None or e.value.what.startswith(what)


@pytest.mark.parametrize(
    "text", ["[" * 5000, "{a: " * 5000, "\n".join(" " * n + "a:" for n in range(1200))]
)
def test_nesting_that_the_parser_itself_refuses_has_the_same_message(text):
    with pytest.raises(InputError) as e:
        read_yaml(text, "h.yaml")
    assert (e.value.slug, "40" in e.value.what) == ("yaml-too-deep", True)
