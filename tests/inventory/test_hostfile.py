"""Hostfiles and host arguments: what a line may say, and every refusal."""

from __future__ import annotations

import pytest

from ipexctl.base.place import Place
from ipexctl.errors import InputError
from ipexctl.inventory.hostfile_text import COMMAND_LINE, parse_hostfile, parse_hosts
from ipexctl.inventory.inventory import Host, Inventory


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
        ("node1:4 binding=user:0", Host("node1", slots=4)),
        ("node1 port=2222 user=ann", Host("node1", port=2222, user="ann")),
        ("node1 address=10.0.0.1", Host("node1", address="10.0.0.1")),
        ("node1 address=[fe80::1]", Host("node1", address="fe80::1")),
        ("node1 python=/opt/py/bin/python3", Host("node1", python="/opt/py/bin/python3")),
        ("node1 nic=ib0 root='/scratch/x'", Host("node1", nic="ib0", root="/scratch/x")),
        ("node1 ansible_host=1.2.3.4 ansible_port=22", Host("node1", address="1.2.3.4", port=22)),
        ("node1 ansible_python_interpreter=auto", Host("node1")),
        ("node1 ansible_connection=local", Host("node1", local=True)),
        ("ssh://node1", Host("node1")),
        ("ssh://node1:2222", Host("node1", port=2222)),
        ("ssh://ann@[::1]:2222/", Host("::1", user="ann", port=2222)),
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
        ("", "hf lists no hosts"),
        ("# only\n\n", "hf lists no hosts"),
        ("a\nnode1:2222", "hf:2:1: node1:2222 may be a port or a number of ranks"),
        ("node1:0", "hf:1:1: node1:0 has no number of slots after the colon"),
        ("node1:", "hf:1:1: node1: has no number of slots after the colon"),
        ("a slots=0", "hf:1:3: slots: '0' is not a whole number from 1 to 999999"),
        ("a slots=four", "hf:1:3: slots: 'four' is not a whole number from 1 to 999999"),
        ("a slots=" + "9" * 5000, None),
        ("a:2 slots=3", "hf:1:5: slots is set twice: in a:2 and in slots"),
        ("a b", "hf:1:3: unexpected 'b' after the host"),
        ("a slot=2", "hf:1:3: 'slot' is not known (did you mean 'slots'?)"),
        ("a http_port=80", "hf:1:3: 'http_port' is not known (did you mean 'port'?)"),
        ("a slots=2 slots=2", "hf:1:11: slots: slots is set twice for host 'a'"),
        ("u@a user=b", "hf:1:5: user is set twice: in u@a and in user"),
        ("a 'b", "hf:1:3: this quote ' is not closed"),
        ("a nic=../x", "hf:1:3: nic: '../x' is not the name of a network interface"),
        ("a root=x", "hf:1:3: root: 'x' is not a valid value for 'root'"),
        ("a root=/a/../b", "hf:1:3: root: '/a/../b' is not a valid value for 'root'"),
        ("a python=x;y", "hf:1:3: python: 'x;y' is not the path of a Python interpreter"),
        ("a address=-oX", "hf:1:3: address: '-oX' is not a host: a name cannot start with '-'"),
        ("a address=b:2", "hf:1:3: address: 'b:2' is neither a host name nor an IP address"),
        ("a ansible_connection=winrm", None),
        ("10.1", "hf:1:1: '10.1' is neither a host name nor an IPv4 address"),
        ("010.0.0.1", "hf:1:1: '010.0.0.1' is neither a host name nor an IPv4 address"),
        ("ssh://-a", "hf:1:7: 'ssh://-a' is not a host: a name cannot start with '-'"),
        ("ann@a:0", "hf:1:1: '0' is not a port"),
        ("ann@a:70000", "hf:1:1: '70000' is not a port"),
        ("@a", "hf:1:1: '' is not a user name"),
        ("ann@", "hf:1:1: '' is not a host name"),
        ("ann@-a", "hf:1:1: '-a' is not a host name"),
        ("-a@b", "hf:1:1: '-a@b' is not a host: a name cannot start with '-'"),
        ("-oProxyCommand=touch /tmp/x", None),
        ("a,b", "hf:1:2: 'a,b' is not a host: ',' is not allowed in a name"),
        ("$(x)", "hf:1:1: '$(x)' is not a host: '$' is not allowed in a name"),
        ("http://a", "hf:1:6: 'http://a' is not a host: '/' is not allowed in a name"),
        ("n\u00f6de", "hf:1:2: 'n\u00f6de' is not a host: '\u00f6' is not allowed in a name"),
        ("a\x00", "hf:1:2: 'a\\x00' is not a host: '\\x00' is not allowed in a name"),
        ("[web]", "hf lists no hosts"),
        ("[web]x", None),
        ("[::1", "hf:1:1: '[::1' is not an address"),
        ("[::1]x", None),
        ("1:2:3", "hf:1:1: '1:2:3' is neither an IPv6 address nor NAME:SLOTS"),
        ("a%b", "hf:1:1: 'a%b' is not a host name"),
        ("node[1-", None),
        ("node[1-010]", None),
        ("node[]", "hf:1:6: 'node[]': [] is not a range of numbers"),
        ("u@node[3-1]", "hf:1:8: 'node[3-1]': [3-1] is not a range of numbers: it runs backwards"),
        ("n[1-9/0]", "hf:1:3: 'n[1-9/0]': [1-9/0] is not a range of numbers: the step is 0"),
        (
            "n[1-999999999]",
            "hf:1:1: 'n[1-999999999]' names 999,999,999 hosts or more; the maximum is 10,000",
        ),
        ("n[1-101][1-100]", None),
        ("a[1-6000]\nb[1-6000]", "hf names 12,000 hosts; the maximum is 10,000"),
        ("a:2\n\n a:2", "hf:3:2: 'a' is listed twice"),
        ("a:2\nA", "hf:2:1: 'A' is listed twice"),
        ("ann@a\nbob@a", "hf:2:1: 'a' is listed twice"),
    ],
)
def test_what_is_no_host_is_refused_with_its_place(text, what):
    with pytest.raises(InputError) as e:
        hosts(text)
    assert what is None or e.value.what == what


def test_a_duplicate_shows_both_lines_and_the_way_out():
    with pytest.raises(InputError) as e:
        hosts("a\nb\n\na slots=2")
    assert e.value.slug == "host-listed-twice"
    assert ("line 1 " in e.value.why, e.value.why.endswith("line 4")) == (True, True)
    assert e.value.hint.endswith(": a slots=2")


def test_two_ports_of_one_name_need_two_names():
    with pytest.raises(InputError) as e:
        hosts("ann@a:2201\nann@a:2202")
    assert "ssh_config" in e.value.hint


def test_a_port_without_a_user_shows_both_spellings():
    with pytest.raises(InputError) as e:
        hosts("node1:2222")
    assert [line.split("  ")[0] for line in e.value.hint.splitlines()] == [
        "USER@node1:2222 or node1 port=2222",
        "node1 slots=2222",
    ]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("node[08-11]", "node08 node09 node10 node11"),
        ("node[01-03,7].example", "node01.example node02.example node03.example node7.example"),
        ("r[1-2]n[a-b]", "r1na r1nb r2na r2nb"),
        ("n[1-9/4]", "n1 n5 n9"),
        ("web[01:03].example", "web01.example web02.example web03.example"),
        ("[a:c]x", "ax bx cx"),
        ("[1-2]node", "1node 2node"),
        ("n[1]", "n1"),
        ("10.0.0.[9-11]", "10.0.0.9 10.0.0.10 10.0.0.11"),
        ("fe80::[1-2]", "fe80::1 fe80::2"),
        ("ann@n[1-2]:22", "n1 n2"),
        ("ssh://n[1-2]:22", "n1 n2"),
        ("n[1-2]:4 nic=ib0", "n1 n2"),
    ],
)
def test_a_range_is_every_host_of_it(line, names):
    found = hosts(line)
    assert [h.name for h in found] == names.split()
    assert len({(h.user, h.port, h.slots, h.nic) for h in found}) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\na\nb\nb\nb\nc\n", {"a": 2, "b": 3, "c": 1}),
        ("a\nb\na\nb\n", {"a": 2, "b": 2}),
        ("a\na\nb:3\n", {"a": 2, "b": 3}),
        ("ann@a:22\nann@a:22\n", {"a": 2}),
    ],
)
def test_a_host_that_stands_once_per_slot_has_so_many_slots(text, expected):
    found = parse_hostfile(text, "hf")
    assert {h.name: h.slots for h in found.hosts} == expected
    assert len(found.notes) == 1


def test_a_node_file_of_a_large_job_is_read_at_once():
    text = "".join(f"node{i // 112:04}\n" for i in range(112 * 300))
    found = parse_hostfile(text, "hf")
    assert (len(found.hosts), {h.slots for h in found.hosts}) == (300, {112})


@pytest.mark.parametrize("text", ["#!/usr/bin/python3\nprint()", "a\n" * (3 << 20)])
def test_what_is_no_list_at_all_is_refused_as_a_whole(text):
    with pytest.raises(InputError) as e:
        hosts(text)
    assert e.value.what.startswith("hf is ")


def test_host_arguments_are_split_at_commas_and_may_be_repeated():
    found = parse_hosts(("a,b:2", " c , ann@d:2222", "", "e[1,2]"))
    assert found == Inventory(
        (
            *(Host("a"), Host("b", slots=2), Host("c"), Host("d", user="ann", port=2222)),
            *(Host("e1"), Host("e2")),
        ),
        COMMAND_LINE,
    )


@pytest.mark.parametrize(
    ("items", "what"),
    [
        ((), "the command line lists no hosts"),
        (("a", "b,a:2"), "on the command line: 'a' is listed twice"),
        (("a b",), "on the command line: 'a b' is not a host: ' ' is not allowed in a name"),
    ],
)
def test_host_arguments_are_refused_like_lines(items, what):
    with pytest.raises(InputError) as e:
        parse_hosts(items)
    assert e.value.what == what
