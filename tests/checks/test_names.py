"""Names: what hosts and name servers answer, each to the others."""

from __future__ import annotations

import pytest

from ipexctl.core.model import Nic
from tests.checks.hosts import part, peer, seen, three
from tests.checks.test_stack_and_network import second


def test_names_that_resolve_rightly_or_were_not_asked_are_fine():
    right = peer("node01", "node02", resolved=("10.0.0.2",), in_range="")
    assert seen(*three(), peers=(right, peer("node01", "node03"))) == []


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (peer("node01", "node02", resolved=()),
         ("NET-008", "note", "", "node02 unknown on node01")),
        (peer("node01", "node02", unanswered=True),
         ("NET-008", "note", "", "asked for node02, the name servers gave no answer on node01")),
        (peer("node01", "node02", resolved=("10.9.9.9",)),
         ("NET-009", "warn", "node01", "node02 is 10.9.9.9")),
        (peer("node01", "node02", resolved=("10.9.9.9", "8.8.4.4")),
         ("NET-009", "warn", "node01", "node02 is 10.9.9.9")),
        (peer("node01", "node02", resolved=("8.8.4.4",)),
         ("NET-009", "note", "node01", "node02 is 8.8.4.4")),
        (peer("node01", "node02", in_range="Connection refused"),
         ("NET-004", "warn", "node02", "node01 to 10.0.0.2: Connection refused")),
    ],
)  # fmt: skip
def test_what_a_try_between_hosts_tells(bad, expected):
    assert seen(*three(), peers=(bad, peer("node03", "node02"))) == [expected]


def test_a_silent_resolver_is_said_once_for_a_host():
    silent = part("net", resolver_silent=True, hostname="node01", hostname_resolves=None)
    hosts = three(node01=silent)
    tries = (peer("node01", "node02", unanswered=True), peer("node03", "node02", unanswered=True))
    assert seen(*hosts, peers=tries) == [
        ("NET-029", "warn", "node01", "asked for node01, name resolution gave no answer"),
        ("NET-008", "note", "", "asked for node02, the name servers gave no answer on node03"),
    ]


@pytest.mark.parametrize(
    ("own", "resolved", "severity"),
    [
        ("8.8.8.8", "8.8.4.4", "warn"),
        ("2600:1f18::2", "8.8.4.4", "note"),
        ("fd00::2", "2600:1f18::9", "note"),
        ("10.1.0.2", "2600:1f18::9", "warn"),
    ],
)
def test_a_public_name_is_translated_where_the_host_has_only_private_ones(own, resolved, severity):
    """Of the same kind: private IPv4 beside public IPv6 is usual in clouds."""
    change = second(Nic("eth1", True, 1500, (own,)))
    tries = (peer("node01", "node02", resolved=(resolved,)),)
    found = seen(*three(node02=change), peers=tries)
    assert found == [("NET-009", severity, "node01", f"node02 is {resolved}")]


def test_names_that_are_translated_and_names_that_are_wrong_are_told_apart():
    tries = (
        peer("node01", "node02", resolved=("8.8.4.4",)),
        peer("node01", "node03", resolved=("10.9.9.9",)),
    )
    assert seen(*three(), peers=tries) == [
        ("NET-009", "warn", "node01", "node03 is 10.9.9.9"),
        ("NET-009", "note", "node01", "node02 is 8.8.4.4"),
    ]
