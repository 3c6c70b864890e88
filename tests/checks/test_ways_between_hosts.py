"""What stands between hosts: firewalls, and other kinds of addresses."""

from __future__ import annotations

import pytest

from ipexctl.doctor.checks import run_all
from ipexctl.doctor.checks.interfaces import address_families, address_family
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.facts.host_facts import peer_address
from ipexctl.facts.interfaces_facts import Nic
from ipexctl.facts.reachability_facts import Peer
from ipexctl.facts.speed_facts import MeasuredLink, Measurements
from tests.checks.hosts import ROWS, Change, clean, findings, part, seen, three

_CLOSED = tuple(
    Peer(a, "node02", "10.0.0.2", ok=False, error="no answer in 2 s") for a in ("node01", "node03")
)


def test_where_ports_are_closed_the_fix_names_what_to_look_at_and_the_option_for_open_ports():
    (found,) = findings(*three(), peers=_CLOSED)
    assert (found.id, found.severity.value, found.host) == ("NET-002", "fail", "node02")
    looks, within = found.fix.lines
    assert looks.startswith("on node01: ip") and "on node02: sudo nft" in looks
    assert within.endswith("ipexctl run --ports LOW-HIGH train.py")


def _at(*addresses: str) -> Change:
    """Reached by the first."""
    nics = (Nic("eth0", True, 1500, addresses),)
    return part("net", nics=nics, ssh_address=addresses[0], hostname_addresses=addresses)


_FOUR, _SIX = _at("10.0.0.9"), _at("fd00::9")
_NO_ROUTE = "Network is unreachable"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"node02": _SIX},
            [("node02", "no IPv4 address, which the other hosts use",
              "it has IPv6 only; node[01,03] reached by IPv4", "give it an IPv4 address")],
        ),
        (
            {"node01": _SIX, "node02": _FOUR, "node03": _at("fd00::3")},
            [("node02", "no IPv6 address, which the other hosts use",
              "it has IPv4 only; node[01,03] reached by IPv6", "give it an IPv6 address")],
        ),
        (
            {"node01": _at("fd00::1", "10.0.0.1"), "node03": _at("fd00::3", "10.0.0.3")},
            [("node02", "no IPv6 address, which the other hosts use",
              "it has IPv4 only; node[01,03] reached by IPv6",
              "name all hosts by their IPv4 addresses, or give it an IPv6 address")],
        ),
        ({"node02": _at("10.0.0.2", "fd00::2")}, []),
        ({"node02": _at("fd00::2", "10.0.0.2")}, []),
    ],
)  # fmt: skip
def test_a_host_without_the_others_kind_of_address_is_named(changes, expected):
    hosts = three(**changes)
    peers = tuple(
        Peer(a.host, b.host, peer_address(b),
             ok=address_family(peer_address(b)) in address_families(a), error=_NO_ROUTE)
        for a in hosts for b in hosts if a is not b
    )  # fmt: skip
    found = [f for f in findings(*hosts, peers=peers) if f.severity.value != "note"]
    told = [(f.host, f.title, f.evidence, str(f.fix)) for f in found if f.id == "NET-026"]
    assert told == expected
    # the others cannot reach it either, where they have its kind of address as little
    assert {f.id for f in found} <= {"NET-026"}


def _link(speed: int | None, duplex: str = "full", number: int = 2) -> Change:
    return part("net", nics=(Nic("eth0", True, 1500, (f"10.0.0.{number}",), speed, duplex),))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"node02": _link(100)}, [("NET-027", "warn", "node02", "eth0: 100 Mbit/s")]),
        (
            {"node02": _link(100, "half"), "node01": _link(25000, number=1)},
            [("NET-027", "warn", "node02", "eth0: 100 Mbit/s, half duplex")],
        ),
        ({"node02": _link(None, "half")}, [("NET-027", "warn", "node02", "eth0: half duplex")]),
        (
            {"node01": _link(25000, number=1), "node02": _link(2500)},
            [("NET-028", "warn", "", "25 Gbit/s on node01; 2.5 Gbit/s on node02")],
        ),
        ({"node01": _link(25000, number=1), "node02": _link(25000)}, []),
        ({"node01": _link(25000, number=1), "node02": _link(None, "")}, []),
    ],
)
def test_a_link_that_is_slow_or_unlike_the_others_is_told(changes, expected):
    assert seen(*three(**changes)) == expected
    measured = Measurements(links=(MeasuredLink("node01", "node02", 1e-4, 9e9),))
    told = run_all(CheckedHosts(three(**changes), rows=ROWS, measured=measured))
    assert "NET-027" not in {f.id for f in told}  # PERF-005 has measured it


def test_one_host_alone_may_have_any_link():
    assert seen(_link(100, number=1)(clean())) == []


def test_rules_of_the_old_iptables_are_looked_at_with_its_own_program():
    old = part("net", firewalls=("ufw", "iptables"))
    assert seen(old(clean())) == [("NET-020", "note", "node01", "ufw, iptables")]
    fixes = [str(f.fix) for f in findings(*three(node02=old), peers=_CLOSED)]
    assert ["sudo iptables-legacy-save" in fix for fix in fixes] == [True, True]
