"""Name resolution: the own names of hosts, localhost, and name servers."""

from __future__ import annotations

from ipexctl.doctor.checks.registry import Evidence, cluster_check, host_check
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.finding import Command, Severity, command, do, edit_file, write_line
from ipexctl.facts.facts import Facts
from ipexctl.facts.host_facts import is_loopback, peer_address


@cluster_check(
    "NET-001",
    title="the host's own name resolves to loopback",
    severity=Severity.WARN,
    seen="the host's own name resolves to loopback. `ipexctl run` sets addresses itself",
    why="gloo and some MPIs announce the address of the host's own name to the other hosts, which "
    "then "
    "connect to themselves: connectFullMesh failed, or a silent hang. `ipexctl run` sets each "
    "host's address and interface itself, so its runs work; torchrun and mpirun started by hand "
    "do not.",
)
def own_name(cluster: CheckedHosts) -> list[Evidence]:
    """Report names that resolve to a loopback address; harmless if the host is the only one."""
    if len(cluster.hosts) < 2:
        return []
    return [
        Evidence(
            f"{facts.net.hostname} resolves to {facts.net.hostname_addresses[0]}",
            host=facts.host,
            fix=do(
                edit_file("/etc/hosts"),
                f"   # {peer_address(facts) or 'ADDRESS'} {facts.net.hostname}"
                f" instead of the line {facts.net.hostname_addresses[0]} {facts.net.hostname}",
            ),
        )
        for facts in cluster.hosts
        if facts.net.hostname_addresses and is_loopback(facts.net.hostname_addresses[0])
    ]


@host_check(
    "NET-005",
    title="the host's own name does not resolve",
    severity=Severity.WARN,
    seen="the host cannot resolve its own name",
    why="gloo: `Unable to resolve hostname to a (local) address. Using the loopback`, and then "
    "ranks connect to themselves. `ipexctl run` sets each host's address itself.",
)
def nameless(facts: Facts) -> Evidence | None:
    """Report a host name that does not resolve, unless no name server responds (NET-029)."""
    if facts.net.hostname_resolves is not False or _name_servers_silent(facts):
        return None
    return Evidence(facts.net.hostname, fix=_own_line(facts))


def _own_line(facts: Facts) -> Command:
    address = peer_address(facts)
    line = f"{address or 'ADDRESS'} {facts.net.hostname}"
    return write_line(line, "/etc/hosts", append=True, scripted=bool(address))


@host_check(
    "NET-006",
    title="the host's own name resolves to an address that it does not have",
    severity=Severity.WARN,
    seen="its own name resolves to an address that none of its interfaces has",
    why="gloo and MPI announce it to the other hosts, which then connect to another host, or to "
    "none. `ipexctl run` sets each host's address itself.",
)
def stale_name(facts: Facts) -> Evidence | None:
    resolved, own = facts.net.hostname_addresses, {a for n in facts.net.nics for a in n.addresses}
    if not resolved or not own or any(a in own or is_loopback(a) for a in resolved):
        return None
    line = f"{peer_address(facts) or 'ADDRESS'} {facts.net.hostname}"
    return Evidence(
        f"{facts.net.hostname} resolves to {', '.join(resolved)}; its own are "
        + ", ".join(sorted(a for a in own if not is_loopback(a))),
        fix=do(edit_file("/etc/hosts"), f"   # {line}   (or correct it in DNS)"),
    )


@host_check(
    "NET-007",
    title="localhost does not resolve to loopback",
    severity=Severity.FAIL,
    seen="`localhost` does not resolve, or resolves to an address outside 127.0.0.0/8 and ::1",
    why="torch, MPI and most tests of a single host connect to localhost.",
    fix=write_line("127.0.0.1 localhost", "/etc/hosts", append=True),
)
def localhost(facts: Facts) -> Evidence | None:
    addresses = facts.net.localhost
    if addresses is None or any(is_loopback(address) for address in addresses):
        return None
    return Evidence(f"localhost resolves to {', '.join(addresses) or 'nothing'}")


_SILENT = "name resolution does not respond"
_SILENT_WHY = (
    "Each lookup waits for seconds and then fails (Temporary failure in name resolution): mpirun "
    "and gloo by hand, pip, and downloads of models and data. `ipexctl run` uses addresses."
)
_NAME_SERVERS = do(
    "check which name servers are configured and whether they respond: ",
    command("cat /etc/resolv.conf"),
    ", ",
    command("getent hosts example.org"),
)


@host_check(
    "NET-029",
    title=_SILENT,
    severity=(Severity.WARN, Severity.NOTE),
    seen="no name server in /etc/resolv.conf responds within 2 s, or looking up the host's own "
    "name got no answer (note: without a default route, where only some name servers do not "
    "respond, where none is configured, or where all refuse to resolve a name on the internet)",
    why=_SILENT_WHY,
    fix=_NAME_SERVERS,
)
def name_servers(facts: Facts) -> Evidence | None:
    """Report name servers that do not respond, even if /etc/hosts has all names needed so far."""
    failed = [server for server in facts.net.name_servers if server.said]
    evidence = "; ".join(f"{server.address}: {server.said}" for server in failed)
    outside = bool(facts.net.default_nic)
    if facts.net.resolver_silent:
        text = f"asked for {facts.net.hostname}, name resolution gave no answer"
        fix = do(_own_line(facts)) | _NAME_SERVERS
        return Evidence("; ".join(filter(None, (text, evidence))), fix=fix)
    if not failed or not (outside or failed[0].configured):
        return None
    if not failed[0].configured:
        title = "no name server is configured"
        return Evidence("/etc/resolv.conf names none", severity=Severity.NOTE, title=title)
    if _name_servers_silent(facts):
        return Evidence(evidence, severity=Severity.WARN if outside else Severity.NOTE)
    if any(not server.responds for server in failed):
        title = "a name server does not respond"
        why = "Programs ask them in turn, and wait up to 5 s for each one that is silent."
        return Evidence(evidence, severity=Severity.NOTE, title=title, why=why)
    if outside and len(failed) == len(facts.net.name_servers):
        title = "the name servers do not resolve names on the internet"
        why = "Downloads by the script itself (models, data) and by pip or apt would fail."
        return Evidence(evidence, severity=Severity.NOTE, title=title, why=why)
    return None


def _name_servers_silent(facts: Facts) -> bool:
    """Decide whether name servers are configured and none of them responds."""
    servers = facts.net.name_servers
    return bool(servers) and servers[0].configured and not any(s.responds for s in servers)
