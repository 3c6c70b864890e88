"""Proxies: whether no_proxy covers the hosts."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from ipexctl.doctor.checks.interfaces import IpNetwork, parse_network
from ipexctl.doctor.checks.registry import Evidence, cluster_check
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.finding import Severity, command, do
from ipexctl.facts.host_facts import peer_address
from ipexctl.inventory.hostfile_text import fold


@cluster_check(
    "NET-024",
    title="a proxy is set, but no_proxy does not cover the hosts",
    severity=Severity.NOTE,
    seen="http_proxy, https_proxy or all_proxy is set, and no_proxy matches neither the name nor "
    "the address of some other hosts",
    why="HTTP between the hosts (experiment trackers, stores) goes through the proxy. gloo and "
    "MPI do not use it.",
)
def proxies(cluster: CheckedHosts) -> Iterator[Evidence]:
    names = {f.host: (f.host, f.net.hostname, peer_address(f)) for f in cluster.hosts}
    outside = cache(lambda text: hosts_outside_no_proxy(text, names))
    for facts in cluster.hosts:
        env = dict(facts.software.env) if facts.software else {}
        variables = [n for n in env if n.lower() in ("http_proxy", "https_proxy", "all_proxy")]
        except_ = env.get("no_proxy", env.get("NO_PROXY", ""))
        if not variables or except_ is None:  # None: it is set, but its value is not reported
            continue
        if uncovered := [host for host in outside(except_) if host != facts.host]:
            covered = except_ or "localhost,127.0.0.1"
            missing = [names[host][2] or host for host in uncovered[:4]]
            yield Evidence(
                f"{', '.join(variables)}; no_proxy {f'is {except_}' if except_ else 'is not set'}; "
                f"not covered: {fold(uncovered)}",
                host=facts.host,
                fix=do(
                    command("export", f"no_proxy={','.join((covered, *missing))}"),
                    "   with all hosts, or their network: 10.0.0.0/8",
                ),
            )


def hosts_outside_no_proxy(no_proxy: str, hosts: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the hosts of which `no_proxy` covers neither a name nor an address."""
    entries = [_without_port(e.lower()) for e in re.split(r"[,\s]+", no_proxy) if e]
    if "*" in entries:
        return []
    suffixes = tuple("." + e.lstrip("*").lstrip(".") for e in entries if "/" not in e)
    networks = [network for e in entries if "/" in e and (network := parse_network(e))]
    return [
        host
        for host, names in hosts.items()
        if not any(_in_no_proxy(name.lower(), suffixes, networks) for name in names if name)
    ]


def _in_no_proxy(name: str, suffixes: tuple[str, ...], networks: list[IpNetwork]) -> bool:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return f".{name}".endswith(suffixes)
    return f".{name}" in suffixes or any(address in network for network in networks)


def _without_port(entry: str) -> str:
    """Return the host of `[fd00::1]:80` or `node01:80`; a bare IPv6 address has several colons."""
    match = re.fullmatch(r"\[([^]]*)\](:\d+)?|([^:]*):\d+", entry)
    return (match[1] or match[3] or "") if match else entry
