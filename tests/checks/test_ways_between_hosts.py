"""What stands between hosts: firewalls and their rules, and other kinds of addresses."""

from __future__ import annotations

import pytest

from ipexctl.doctor.checks import run_all
from ipexctl.doctor.checks.interfaces import address_family, families
from ipexctl.doctor.report.cluster import Cluster
from ipexctl.facts.facts import Nic, Peer
from ipexctl.facts.host_facts import peer_address
from ipexctl.facts.measurements import Link, Measured
from ipexctl.facts.open_ports import in_common, read_rules
from tests.checks.hosts import ROWS, Change, clean, findings, part, seen, three

_NFT = """
table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		ct state established,related accept
		tcp dport 22 accept
		ip saddr 10.0.0.0/24 tcp dport { 80, 40000-40100 } ct state new counter packets 3 accept
		tcp dport 50000-51000 drop
	}
	chain forward {
		type filter hook forward priority filter; policy drop;
		tcp dport 60000-61000 accept
	}
}
table inet firewalld {
	chain filter_IN_public_allow {
		tcp dport 30000-30100 accept
		udp dport 31000-31100 accept
	}
	chain filter_FWD_public_allow {
		tcp dport 32000-32100 accept
	}
}
"""
_IPTABLES = """
*filter
:INPUT DROP [0:0]
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
-A INPUT -s 10.0.0.0/24 -p tcp -m multiport --dports 40000:40100,8080 -j ACCEPT
-A INPUT -p udp -m udp --dport 5000:6000 -j ACCEPT
-A INPUT -p tcp -m tcp --dport 50000:51000 -j REJECT
-A FORWARD -p tcp -m tcp --dport 60000:61000 -j ACCEPT
-A ufw-user-input -p tcp -m tcp --dport 29500:29600 -j ACCEPT
COMMIT
"""
_FIREWALLD = """<?xml version="1.0" encoding="utf-8"?>
<zone><service name="ssh"/><port port="40000-40100" protocol="tcp"/>
  <port protocol="udp" port="5000-6000"/><port protocol="tcp" port="8080"/>
  <source-port port="7000-7100" protocol="tcp"/></zone>
"""


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (_NFT, ((22, 22), (80, 80), (40000, 40100), (30000, 30100))),
        (_IPTABLES, ((22, 22), (40000, 40100), (8080, 8080), (29500, 29600))),
        (_FIREWALLD, ((40000, 40100), (8080, 8080))),
        ("", ()),
        ("tcp dport 70000-99999 accept\n-A INPUT -p tcp --dport 9:1 -j ACCEPT\n<port>", ()),
    ],
    ids=["nft", "iptables", "firewalld", "nothing", "nonsense"],
)
def test_rules_of_every_kind_say_which_ports_are_let_in(rules, expected):
    assert read_rules(rules) == expected


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ([[(22, 22), (40000, 40100)]], (40000, 40100)),
        ([[(40000, 40100)], [(40050, 41000)]], (40050, 40100)),
        ([[(40000, 40100)], [(40090, 41000)]], None),
        ([[(1, 65535)], [(22, 22), (500, 2000)]], (1024, 2000)),
        ([[(40000, 40100)], []], None),
        ([], None),
    ],
)
def test_a_range_has_to_be_open_on_all_hosts_and_to_be_wide_enough(hosts, expected):
    assert in_common(hosts, 16) == expected


_CLOSED = tuple(
    Peer(a, "node02", "10.0.0.2", ok=False, error="no answer in 2 s") for a in ("node01", "node03")
)


def test_an_open_range_is_suggested_where_other_ports_are_closed():
    behind = part("net", open_ports=((22, 22), (40000, 40100)))
    (found,) = findings(*three(node02=behind), peers=_CLOSED)
    assert (found.id, found.severity.value, found.host) == ("NET-002", "fail", "node02")
    assert [str(c).split()[:2] for c in found.fix.commands] == [
        ["ipexctl", "run"], ["sudo", "sysctl"], ["ip", "route"], ["sudo", "nft"]
    ]  # fmt: skip
    within, looks = found.fix.lines
    assert "--ports 40000-40100 " in within and "node02" in within
    assert "'net.ipv4.ip_local_port_range=40000 40100'" in within
    assert looks.startswith("on node01: ip") and "on node02: sudo" in looks
    assert "--ports" not in str(findings(*three(), peers=_CLOSED)[0].fix)


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
            {"node01": _SIX, "node02": _FOUR, "node03": _SIX},
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
        Peer(a.host, b.host, peer_address(b), ok=address_family(peer_address(b)) in families(a),
             error=_NO_ROUTE)
        for a in hosts for b in hosts if a is not b
    )  # fmt: skip
    found = [f for f in findings(*hosts, peers=peers) if f.severity.value != "note"]
    told = [(f.host, f.title, f.evidence, str(f.fix)) for f in found if f.id == "NET-026"]
    assert told == expected
    # the others cannot reach it either, where they have its kind of address as little
    assert {f.id for f in found} <= {"NET-026"}


def _link(speed: int | None, duplex: str = "full", number: int = 2) -> Change:
    return part("net", nics=(Nic("eth0", True, 1500, (f"10.0.0.{number}",), speed, duplex),))


_LINK_FIX = "ethtool eth0 | grep -E 'Speed|Duplex'"


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
    measured = Measured(links=(Link("node01", "node02", 1e-4, 9e9),))
    told = run_all(Cluster(three(**changes), rows=ROWS, measured=measured))
    assert "NET-027" not in {f.id for f in told}  # PERF-005 has measured it


def test_one_host_alone_may_have_any_link():
    assert seen(_link(100, number=1)(clean())) == []


def test_rules_of_the_old_iptables_are_looked_at_with_its_own_program():
    old = part("net", firewalls=("ufw", "iptables"))
    assert seen(old(clean())) == [("NET-020", "note", "node01", "ufw, iptables")]
    fixes = [str(f.fix) for f in findings(*three(node02=old), peers=_CLOSED)]
    assert ["sudo iptables-legacy-save" in fix for fix in fixes] == [True, True]
