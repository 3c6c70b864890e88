"""Names: what hosts and name servers answer, each to the others."""

from __future__ import annotations

import pytest

from ipexctl.facts.facts import Nic
from tests.checks.hosts import part, peer, seen, three
from tests.checks.test_stack_and_network import second, software


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
    own, others = seen(*hosts, peers=tries)
    assert own[:3] == ("NET-029", "warn", "node01")
    assert others[:3] == ("NET-008", "note", "")
    assert "node02" in others[3] and others[3].endswith(" on node03")


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


PROXY = (("http_proxy", None),)


@pytest.mark.parametrize(
    ("no_proxy", "left"),
    [
        ("", "node[02-03]"),
        ("localhost,127.0.0.1", "node[02-03]"),
        ("node02", "node03"),
        ("10.0.0.2 10.0.0.3:8080", ""),
        ("10.0.0.0/24", ""),
        ("10.0.0.1/24", ""),
        ("10.0.0.0/31,NODE03", "node02"),
        ("10.0.1.0/24,10.", "node[02-03]"),
        ("*", ""),
        (".cluster", "node[02-03]"),
        ("ode02,de03", "node[02-03]"),
        ("https://node02,/,[]", "node[02-03]"),
    ],
)
def test_a_no_proxy_counts_by_the_hosts_that_it_covers(no_proxy, left):
    given = (("no_proxy", no_proxy),) if no_proxy else ()
    said = no_proxy and f"is {no_proxy}" or "is not set"
    evidence = f"http_proxy; no_proxy {said}; not covered: {left}"
    expected = [("NET-024", "note", "node01", evidence)] if left else []
    assert seen(*three(node01=software(env=PROXY + given))) == expected


@pytest.mark.parametrize("entry", [".cluster.example", "*.cluster.example", "cluster.example"])
def test_a_no_proxy_covers_by_the_domain_of_the_hosts_own_names(entry):
    named = {f"node{i:02d}": part("net", hostname=f"n{i}.cluster.example") for i in (2, 3)}
    proxied = software(env=(*PROXY, ("NO_PROXY", entry)))
    assert seen(*three(node01=proxied, **named)) == []
    assert [f[0] for f in seen(*three(node01=proxied))] == ["NET-024"]
