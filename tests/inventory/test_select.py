"""--limit and -x: who is meant."""

from __future__ import annotations

import pytest

from ipexctl.errors import InputError
from ipexctl.inventory.host_patterns import select_hosts
from ipexctl.inventory.hostfile_text import parse_hostfile
from tests.refused import refused

HOSTS = parse_hostfile(
    """\
head
fe80::1

[web]
node[1-4]

[db]
node4
data

[empty]

[prod:children]
db
""",
    "hf",
)
RACKS = parse_hostfile("[rack1]\na\n[rack2]\nb\nc\n[rack10]\nd\n[row]\nrack9\n", "hf")
KNOWN = {"healthy": frozenset(["node1", "data", "gone"]), "last-failed": None}
EVERYBODY = "head fe80::1 node1 node2 node3 node4 data"


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ("all", EVERYBODY),
        ("*", EVERYBODY),
        ("node2", "node2"),
        ("NODE2", "node2"),
        ("node2,head", "head node2"),
        ("node2:head", "head node2"),
        ("node2 | head", "head node2"),  # given twice on the command line
        ("web", "node1 node2 node3 node4"),
        ("@web", "node1 node2 node3 node4"),
        ("prod", "node4 data"),
        ("ungrouped", "head fe80::1"),
        ("node[1-2]", "node1 node2"),
        ("node[1,4]", "node1 node4"),
        ("node*", "node1 node2 node3 node4"),
        ("?ode[1-2]", "node1 node2"),
        ("d*", "node4 data"),  # the group db, too
        ("all:!node1", "head fe80::1 node2 node3 node4 data"),
        ("!node1", "head fe80::1 node2 node3 node4 data"),
        ("all:!web:!head", "fe80::1 data"),
        ("!web,all", "head fe80::1 data"),
        ("web:&db", "node4"),
        ("web:&db:!data", "node4"),
        ("&web", "node1 node2 node3 node4"),
        ("@healthy", "node1 data"),
        ("all:!@healthy", "head fe80::1 node2 node3 node4"),
        ("fe80::1", "fe80::1"),
        ("[fe80::1],head", "head fe80::1"),
        ("all,!fe80::1", "head node1 node2 node3 node4 data"),
    ],
)
def test_a_pattern_means_these_hosts(patterns, names):
    found = select_hosts(HOSTS, [p.strip() for p in patterns.split("|")], (), KNOWN)
    assert " ".join(h.name for h in found.hosts) == names


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("rack[1-2]", "a b c"),
        ("rack[1,9]", "a rack9"),
        ("@rack[1-2]", "a b c"),
        ("@rack[1:2]", "a b c"),
        ("@rack*", "a b c d"),
        ("@rack?", "a b c"),
        ("@r*:!@rack[1-2]", "d rack9"),
    ],
)
def test_a_pattern_may_mean_several_groups(pattern, names):
    assert " ".join(h.name for h in select_hosts(RACKS, (pattern,)).hosts) == names


def test_a_group_missing_from_several_is_named():
    for pattern in ("@rack[9-10]", "@rack[8-9]"):
        with refused("unknown-group", "'rack"):
            select_hosts(RACKS, (pattern,))


@pytest.mark.parametrize(
    ("patterns", "what"),
    [
        ("nodo1", "no host or group in hf matches 'nodo1' (did you mean 'node1'?)"),
        ("node[1-5]", "no host or group in hf matches 'node5' (did you mean 'node4'?)"),
        ("x*", "no host or group in hf matches 'x*'"),
        ("all:!bad", "no host or group in hf matches 'bad'"),
        ("@wb", "there is no group 'wb' (did you mean 'web'?)"),
        ("@node1", "there is no group 'node1'"),
        ("@node*", "there is no group 'node*'"),
        ("@last-failed", "@last-failed: these hosts have not been checked yet"),
        ("", "--limit is empty"),
        (" , :", "--limit is empty"),
        ("all:!all", "--limit and -x select no host in hf"),
        ("@empty", "there is no group 'empty'"),
        ("node[1-", "'node[1-': unbalanced brackets"),
    ],
)
def test_a_pattern_that_means_nobody_is_refused(patterns, what):
    with pytest.raises(InputError) as e:
        select_hosts(HOSTS, (patterns,), (), KNOWN)
    assert e.value.what == what


def test_a_refusal_shows_who_is_there():
    with pytest.raises(InputError) as e:
        select_hosts(HOSTS, ("bad",), (), KNOWN)
    assert [line.partition(": ")[2] for line in e.value.hint.splitlines()] == [
        "head,fe80::1,node[1-4],data",
        "@db, @prod, @web, @healthy, @last-failed",
    ]


@pytest.mark.parametrize(
    ("limit", "exclude", "names"),
    [
        ((), ("node*",), "head fe80::1 data"),
        (("web",), ("node[2-3]",), "node1 node4"),
        (("web",), ("@db", "node1"), "node2 node3"),
        (("web",), ("",), "node1 node2 node3 node4"),
    ],
)
def test_exclusion_comes_after_the_limit(limit, exclude, names):
    assert " ".join(h.name for h in select_hosts(HOSTS, limit, exclude, KNOWN).hosts) == names


def test_many_stars_take_no_time():
    hosts = parse_hostfile("a" * 240 + "\n", "hf")
    with refused("no-host-matches", "hf"):
        select_hosts(hosts, ("*a" * 200 + "b",), (), {})
