"""Hostfiles and host arguments, in every dialect that is read, and every refusal."""

from __future__ import annotations

import random

import pytest

from ipexctl.core.inventory import fold, parse_hostfile, parse_hosts, this_machine
from ipexctl.core.model import Host, Inventory, Place
from ipexctl.errors import InputError


def hosts(text: str) -> list[Host]:
    return list(parse_hostfile(text, "hf").hosts)


def at(line: int, column: int = 1) -> Place:
    return Place("hf", line, column)


@pytest.mark.parametrize(
    ("line", "host"),
    [
        ("node1", Host("node1")),
        ("node_1.rack-2.example.com", Host("node_1.rack-2.example.com")),
        ("10.0.0.1", Host("10.0.0.1")),
        ("node1:4", Host("node1", slots=4)),
        ("node1:999", Host("node1", slots=999)),
        ("node1 slots=4", Host("node1", slots=4)),
        ("node1\tslots=4 max_slots=8", Host("node1", slots=4)),
        ("node1 max-slots=8", Host("node1")),
        ("node1 slots=1000", Host("node1", slots=1000)),
        ("ann@node1", Host("node1", user="ann")),
        ("ann@node1:2222", Host("node1", user="ann", port=2222)),
        ("ann@node1:22 slots=4", Host("node1", user="ann", port=22, slots=4)),
        ("ann@corp.example@node1", Host("node1", user="ann@corp.example")),
        ("::1", Host("::1")),
        ("[::1]", Host("::1")),
        ("[::1]:2222", Host("::1", port=2222)),
        ("ann@[fe80::1%eth0]:2222 slots=2", Host("fe80::1%eth0", user="ann", port=2222, slots=2)),
        ("fe80::1%eth0", Host("fe80::1%eth0")),
    ],
)
def test_one_line_says_one_host(line, host):
    place = at(1)
    assert hosts(line) == [Host(**{**vars(host), "place": place})]


@pytest.mark.parametrize(
    "text",
    [
        "a\nb:2\n",
        "a\r\nb:2\r\n",
        "a\rb:2",
        "\ufeffa\nb:2",
        "# all\na #node0\nb:2#c\n",
        "\n\n  a\n\tb:2   \n\n",
        "a # x # y\nb:2\n#",
    ],
)
def test_comments_blank_lines_and_line_ends_change_nothing(text):
    assert [(h.name, h.slots) for h in hosts(text)] == [("a", 0), ("b", 2)]


def test_the_place_of_a_host_is_where_it_stands():
    assert [h.place for h in hosts("# c\n\n  a\n b")] == [at(3, 3), at(4, 2)]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "hf names no host"),
        ("# only\n\n", "hf names no host"),
        ("a\nnode1:2222", "hf:2:1: node1:2222 could be a port or a number of ranks"),
        ("node1:0", "hf:1:1: node1:0 has no number of slots after the colon"),
        ("node1:", "hf:1:1: node1: has no number of slots after the colon"),
        ("node1:x", "hf:1:1: node1:x has no number of slots after the colon"),
        ("a slots=0", "hf:1:3: 'slots=0': slots must be a whole number from 1"),
        ("a slots=four", "hf:1:3: 'slots=four': slots must be a whole number from 1"),
        ("a slots=" + "9" * 5000, None),
        ("a:2 slots=3", "hf:1:5: slots are given twice: a:2 and slots=3"),
        ("a b", "hf:1:3: 'b' is not understood after a host"),
        ("a ansible_host=1.2.3.4", "hf:1:3: 'ansible_host=1.2.3.4' is not understood after a host"),
        ("ann@a:0", "hf:1:1: '0' is not a port"),
        ("ann@a:70000", "hf:1:1: '70000' is not a port"),
        ("@a", "hf:1:1: '' is not a user name"),
        ("ann@", "hf:1:1: '' is not a host name"),
        ("ann@-a", "hf:1:1: '-a' is not a host name"),
        ("-a@b", "hf:1:1: '-a@b' is not a host: a name cannot start with '-'"),
        ("-oProxyCommand=touch /tmp/x", None),
        ("a,b", "hf:1:2: 'a,b' is not a host: ',' cannot stand in a name"),
        ("a;b", "hf:1:2: 'a;b' is not a host: ';' cannot stand in a name"),
        ("$(x)", "hf:1:1: '$(x)' is not a host: '$' cannot stand in a name"),
        ("http://a", "hf:1:6: 'http://a' is not a host: '/' cannot stand in a name"),
        ("n\u00f6de", "hf:1:2: 'n\u00f6de' is not a host: '\u00f6' cannot stand in a name"),
        ("a\x00", "hf:1:2: 'a\\x00' is not a host: '\\x00' cannot stand in a name"),
        ("[web]", "hf:1:1: 'web' is not an IPv6 address"),
        ("[::1", "hf:1:1: '[::1' is not an address"),
        ("[::1]x", None),
        ("1:2:3", "hf:1:1: '1:2:3' is not an IPv6 address"),
        ("a%b", "hf:1:1: 'a%b' is not a host name"),
        ("node[01-03]", "hf:1:1: 'node[01-03]': ranges of hosts are not supported yet"),
        ("node[1,2].x", "hf:1:1: 'node[1,2].x': ranges of hosts are not supported yet"),
        ("a\n\n a", "hf:3:2: a is named twice"),
        ("a:2\nA", "hf:2:1: A is named twice"),
        ("ann@a\nbob@a", "hf:2:1: a is named twice"),
    ],
)
def test_what_is_no_host_is_refused_with_its_place(text, what):
    with pytest.raises(InputError) as e:
        hosts(text)
    assert what is None or e.value.what == what


def test_a_duplicate_shows_both_lines_and_the_way_out():
    with pytest.raises(InputError) as e:
        hosts("a\nb\n\na slots=2")
    assert (e.value.why, e.value.hint) == (
        "it stands in line 1 and again in line 4",
        "for several ranks on one host write a number: a slots=2",
    )


def test_two_ports_of_one_name_need_two_names():
    with pytest.raises(InputError) as e:
        hosts("ann@a:2201\nann@a:2202")
    assert "ssh_config" in e.value.hint


def test_a_port_without_a_user_shows_both_spellings():
    with pytest.raises(InputError) as e:
        hosts("node1:2222")
    assert [line.split("  ")[0] for line in e.value.hint.splitlines()] == [
        "USER@node1:2222",
        "node1 slots=2222",
    ]


def test_host_arguments_are_split_at_commas_and_may_be_repeated():
    found = parse_hosts(("a,b:2", " c , ann@d:2222", ""))
    assert found == Inventory(
        (Host("a"), Host("b", slots=2), Host("c"), Host("d", user="ann", port=2222)),
        "the command line",
    )


@pytest.mark.parametrize(
    ("items", "what"),
    [
        ((), "the command line names no host"),
        (("a,a",), "on the command line: a is named twice"),
        (("a", "b,a:2"), "on the command line: a is named twice"),
        (("node[1,2]",), "on the command line: 'node[1,2]': ranges of hosts are not supported yet"),
        (("--", "a"), "on the command line: '--' is not a host: a name cannot start with '-'"),
        (("a b",), "on the command line: 'a b' is not a host: ' ' cannot stand in a name"),
    ],
)
def test_host_arguments_are_refused_like_lines(items, what):
    with pytest.raises(InputError) as e:
        parse_hosts(items)
    assert e.value.what == what


def test_this_machine_is_one_local_host():
    assert this_machine() == Inventory((Host("localhost", local=True),), "this machine")


def test_random_text_gives_an_inventory_or_an_input_error():
    rng = random.Random(7)
    pieces = [
        *"ab019.:%@[]-_#=, \t\n\r\x00\x0b\x1c\u2028\ud800é\\\"'$",
        *("slots=", "max_slots=", "node", "::1", "fe80::1%eth0", "9" * 5000, "\ufeff", ":22"),
    ]
    outcomes = set()
    for _ in range(5_000):
        text = "".join(rng.choices(pieces, k=rng.randrange(12)))
        try:
            found = parse_hostfile(text, "hf")
            assert all(h.name and not h.name.startswith("-") for h in found.hosts)
            assert 0 <= max(h.port for h in found.hosts) <= 65535
            outcomes.add("inventory")
        except InputError as e:
            assert e.what
            outcomes.add("refused")
    assert outcomes == {"inventory", "refused"}


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "a"], "a"),
        (["node01", "node02", "node03", "head"], "node[01-03],head"),
        (["head", "node3", "node1", "node2"], "head,node[1-3]"),
        (["node1", "node2", "node5"], "node[1-2,5]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n09", "n10", "n8"], "n[09-10],n8"),
        (["x0", "x1"], "x[0-1]"),
        (["x1", "x01", "x2"], "x[1-2],x01"),
        (["10.0.0.1", "10.0.0.2", "10.0.1.1"], "10.0.0.[1-2],10.0.1.1"),
        (["node01.dc2.x", "node02.dc2.x"], "node[01-02].dc2.x"),
        (["r1n1", "r1n2", "r2n1", "r2n2"], "r1n[1-2],r2n[1-2]"),
        (["a1b", "a2c"], "a1b,a2c"),
        (["n" + "1" * 30, "n" + "1" * 29 + "2"], "n" + "1" * 27 + "[111-112]"),
    ],
)
def test_names_are_folded_for_display(names, folded):
    assert fold(names) == folded
