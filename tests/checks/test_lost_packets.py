"""Packets that get lost between hosts, from what each of them saw."""

from __future__ import annotations

from itertools import permutations

import pytest

from ipexctl.facts.interfaces_facts import Nic
from ipexctl.facts.reachability_facts import Peer
from tests.checks.hosts import Change, clean, findings, part, seen, three


def _nics(*found: Nic) -> Change:
    return part("net", nics=found)


def _tries(*bad: str, hosts: int = 4, passes: int | None = 1400) -> tuple[Peer, ...]:
    """`bad`: "12" is node01 to node02; "2" is all that node02 sends and gets."""
    names = [f"node{i:02d}" for i in range(1, hosts + 1)]
    found = []
    for a, b in permutations(names, 2):
        lost = any(w in (a[-1] + b[-1], a[-1], b[-1]) for w in bad)
        address = f"10.0.0.{int(b[-1])}"
        found.append(Peer(a, b, address, True, lost=lost, passes=passes if lost else None))
    return tuple(found)


_HOLE = "large packets to or from this host are lost"
_HOLES = "large packets between hosts are lost"
_1400 = "packets of 1400 bytes arrive; the MTU is 1500"
_MTU = "sudo ip link set eth0 mtu 1400   # {}"
_OR = "or raise the MTU between the hosts"


@pytest.mark.parametrize(
    ("tries", "expected"),
    [
        (_tries(), []),
        (_tries("2"), [(_HOLE, "node02", f"with node[01,03-04]; {_1400}", _MTU.format(_OR))]),
        (
            _tries("12", "32", "42"),
            [(_HOLE, "node02", f"with node[01,03-04]; {_1400}", _MTU.format(_OR))],
        ),
        (
            _tries("2", "3", hosts=5),
            [
                (_HOLE, "node02", f"with node[01,03-05]; {_1400}", _MTU.format(_OR)),
                (_HOLE, "node03", f"with node[01,04-05]; {_1400}", _MTU.format(_OR)),
            ],
        ),
        (  # the cable between two switches
            _tries("13", "14", "23", "24", "31", "32", "41", "42"),
            [
                (
                    _HOLES, "",
                    "node01 to node03, node01 to node04, node02 to node03, node02 to node04; "
                    + _1400,
                    _MTU.format("on node[01-04]   (" + _OR + ")"),
                )
            ],
        ),
        (
            _tries("12", "21", hosts=2),
            [(_HOLES, "", f"node01 to node02, node02 to node01; {_1400}",
              _MTU.format("on node[01-02]   (" + _OR + ")"))],
        ),
        (
            _tries("12", hosts=2, passes=None),
            [(_HOLES, "", "node01 to node02; the MTU is 1500",
              "tracepath -n 10.0.0.2   # on node01: the MTU there")],
        ),
        (
            _tries("1", "2", "3", hosts=3),
            [(_HOLES, "", "node01 to node02, node01 to node03, node02 to node01, node02 to node03; "
              + _1400, _MTU.format("on node[01-03]   (" + _OR + ")"))],
        ),
    ],
)  # fmt: skip
def test_the_host_that_pairs_with_lost_packets_have_in_common_is_named(tries, expected):
    hosts = tuple(clean(f"node{i:02d}", f"10.0.0.{i}") for i in range(1, 6))
    named = {name for p in tries for name in (p.source, p.target)}
    found = findings(*(h for h in hosts if h.host in named), peers=tries)
    assert [(f.title, f.host, f.evidence, str(f.fix)) for f in found] == expected
    assert {(f.id, f.severity.value) for f in found} <= {("NET-025", "fail")}


def test_mtus_that_differ_are_no_second_finding_where_packets_are_lost():
    jumbo = _nics(Nic("eth0", True, 9000, ("10.0.0.2",)))
    (found,) = seen(*three(node02=jumbo), peers=_tries("2", hosts=3, passes=1500))
    assert found[:3] == ("NET-025", "fail", "node02")
    assert all(value in found[3] for value in ("node[01,03]", "1500", "9000"))


def test_different_mtus_are_a_note_where_large_packets_arrive():
    hosts = three(node02=_nics(Nic("eth0", True, 9000, ("10.0.0.2",))))
    assert seen(*hosts, peers=_tries(hosts=3)) == [
        ("NET-013", "note", "", "1500 on node[01,03]; 9000 on node02")
    ]
