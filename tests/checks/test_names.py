"""Names: what hosts and name servers answer, each to the others."""

from __future__ import annotations

import pytest

from tests.checks.hosts import part, peer, seen, three
from tests.checks.test_stack_and_network import software


def test_a_closed_port_beside_master_port_is_told_of_the_host_that_has_it():
    bad = peer("node01", "node02", in_range="Connection refused")
    expected = ("NET-004", "warn", "node02", "node01 to 10.0.0.2: Connection refused")
    assert seen(*three(), peers=(bad, peer("node03", "node02", in_range=""))) == [expected]


def test_a_silent_resolver_is_said():
    silent = part("net", resolver_silent=True, hostname="node01", hostname_resolves=None)
    (own,) = seen(*three(node01=silent))
    assert own[:3] == ("NET-029", "warn", "node01")


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
