"""doctor: ask all hosts what they are, let them try each other, and judge.

Two phases over one connection per host: facts from all, then everybody connects to the others.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ipexctl.core import isa
from ipexctl.core.checks import run_all
from ipexctl.core.checks.cluster import Cluster
from ipexctl.core.checks.network import pairs
from ipexctl.core.facts import is_address, peer_address, plain
from ipexctl.core.model import Facts, Finding, Host, HostDown, Inventory, Peer, Severity
from ipexctl.core.values import listed, texts
from ipexctl.errors import EXIT_FAILED, EXIT_OK, EXIT_UNREACHABLE, worst_exit
from ipexctl.hosts.agent import Agent, connect
from ipexctl.hosts.fleet import fan_out
from ipexctl.hosts.transport import Transport
from ipexctl.verbs.facts import ROOT, probe_and_listen
from ipexctl.verbs.target import AnyTransport, Target, inventory

SCHEMA = 1
PEER_TIMEOUT = 2.0
_NOT_REACHED = ("unreachable", "host-key-unknown", "host-key-changed")
_CLOSERS = 16
_BESIDE = "beside MASTER_PORT: "  # in front of the name, for the second port of the same host


@dataclass(frozen=True)
class Report:
    """The outcome of all hosts. `trust` is the command that accepts the keys nobody knows yet."""

    hosts: tuple[Host, ...]
    facts: tuple[Facts, ...]
    down: tuple[HostDown, ...]
    peers: tuple[Peer, ...]
    findings: tuple[Finding, ...]
    seconds: float
    trust: str = "ipexctl trust"

    @property
    def exit_code(self) -> int:
        codes = [EXIT_UNREACHABLE if d.slug in _NOT_REACHED else EXIT_FAILED for d in self.down]
        failed = any(f.severity is Severity.FAIL for f in self.findings)
        return worst_exit([*codes, EXIT_FAILED if failed else EXIT_OK])

    def facts_of(self, host: str) -> Facts | None:
        return next((f for f in self.facts if f.host == host), None)

    def down_of(self, host: str) -> HostDown | None:
        return next((d for d in self.down if d.host == host), None)

    def state(self, host: str) -> str:
        """unreachable, failed, fail, warn or ok: what the host's row says."""
        down = self.down_of(host)
        if down:
            return "unreachable" if down.slug in _NOT_REACHED else "failed"
        own = {f.severity for f in self.findings if f.host == host}
        return next((s.value for s in (Severity.FAIL, Severity.WARN) if s in own), "ok")


@dataclass(frozen=True)
class _Seen:
    agent: Agent
    facts: Facts
    port: int | None


def examine(target: Target, root: str = ROOT) -> Report:
    """Raises InputError for hosts that cannot be named; all else is in the report."""
    hosts = inventory(target)
    transport = AnyTransport(target, hosts)
    try:
        return examine_hosts(hosts, transport, root, target)
    finally:
        transport.close()


def examine_hosts(
    hosts: Inventory, transport: Transport, root: str = ROOT, target: Target | None = None
) -> Report:
    """The same for hosts that are known already, over a given transport."""
    target = target or Target()
    began = time.monotonic()
    seen: dict[str, _Seen] = {}

    def first(host: Host) -> Facts:
        agent = connect(transport, host, timeout=target.connect_timeout + 5)
        try:
            facts, port = probe_and_listen(agent, root, listen=len(hosts.hosts) > 1)
        except BaseException:
            agent.close()
            raise
        seen[host.name] = _Seen(agent, facts, port)
        return facts

    try:
        outcomes = fan_out(hosts.hosts, first, forks=target.forks)
        tried, lost = _connect_all(hosts.hosts, seen, target.forks)
    finally:
        _close([s.agent for s in seen.values()])
    down = [o for o in outcomes.values() if isinstance(o, HostDown)] + lost
    facts = tuple(o for o in outcomes.values() if isinstance(o, Facts))
    gone = {d.host for d in down}
    peers = tuple(p for p in tried if p.target not in gone)
    return Report(
        hosts=hosts.hosts,
        facts=facts,
        down=tuple(down),
        peers=peers,
        findings=run_all(Cluster(tuple(f for f in facts if f.host not in gone), peers)),
        seconds=time.monotonic() - began,
        trust=_trust(target, hosts),
    )


def _connect_all(
    hosts: Sequence[Host], seen: Mapping[str, _Seen], forks: int
) -> tuple[list[Peer], list[HostDown]]:
    """Who reaches whom, and the hosts that were lost meanwhile."""
    where = {n: (peer_address(s.facts), s.port) for n, s in seen.items() if s.port}
    beside_port = {n: s.facts.net.range_port for n, s in seen.items() if s.facts.net.range_port}
    able = [h for h in hosts if h.name in where and where[h.name][0]]
    plan = pairs([h.name for h in able])

    def second(host: Host) -> list[Peer]:
        targets = [(name, *where[name]) for name in plan[host.name]]
        if not targets:
            return []
        beside = [(_BESIDE + n, a, beside_port[n]) for n, a, _ in targets if n in beside_port]
        names = [name for name, _, _ in targets if not is_address(name)]
        args = {"targets": targets + beside, "names": names, "timeout": PEER_TIMEOUT}
        reply = seen[host.name].agent.call("net.connect", args, timeout=PEER_TIMEOUT + 10)
        errors, resolved = _results(reply.done), _resolved(reply.done)
        return [
            Peer(
                source=host.name,
                target=name,
                address=address,
                ok=errors.get(name) == "",
                error=errors.get(name, "?"),
                in_range=errors.get(_BESIDE + name),
                resolved=resolved.get(name),
            )
            for name, address, _ in targets
        ]

    outcomes = fan_out(able, second, forks=forks).values()
    peers = [p for o in outcomes if not isinstance(o, HostDown) for p in o]
    return peers, [o for o in outcomes if isinstance(o, HostDown)]


def _results(done: Mapping[str, Any]) -> dict[str, str]:
    rows = done.get("results")
    pairs = (
        [r for r in rows if isinstance(r, list) and len(r) == 2] if isinstance(rows, list) else []
    )
    return {plain(name): plain(error) for name, error in pairs}


def _resolved(done: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """What the hosts' names mean there; a name without an answer in time is not in it."""
    rows = (row for row in listed(done.get("names")) if isinstance(row, list) and len(row) == 2)
    return {plain(name): texts(found) for name, found in rows if isinstance(found, list)}


def _close(agents: list[Agent]) -> None:
    if agents:
        by_host = {a.host: a for a in agents}
        fan_out(list(by_host), lambda host: by_host[host].close(), forks=_CLOSERS)


def _trust(target: Target, hosts: Inventory) -> str:
    if target.hostfile:
        return f"ipexctl trust -f {target.hostfile}"
    return "ipexctl trust -H " + ",".join(h.name for h in hosts.hosts)


# --- as one JSON document ------------------------------------------------------------------------


def document(report: Report) -> dict[str, Any]:
    """docs/checks.md describes it; a field may come, none goes or changes while SCHEMA stays."""
    return {
        "schema_version": SCHEMA,
        "command": "doctor",
        "hosts": [_host(report, host) for host in report.hosts],
        "findings": [_finding(f) for f in report.findings if not f.host],
        "peers": [asdict(p) for p in report.peers],
        "seconds": round(report.seconds, 3),
        "exit_code": report.exit_code,
    }


def _host(report: Report, host: Host) -> dict[str, Any]:
    facts, down = report.facts_of(host.name), report.down_of(host.name)
    return {
        "name": host.name,
        "address": peer_address(facts) if facts else "",
        "state": report.state(host.name),
        "isa": isa.level(facts.cpu) if facts else "",
        "facts": _facts(facts) if facts else None,
        "error": asdict(down) if down else None,
        "findings": [_finding(f) for f in report.findings if f.host == host.name],
    }


def _facts(facts: Facts) -> dict[str, Any]:
    plain_facts = asdict(facts)
    plain_facts["cpu"]["flags"] = sorted(facts.cpu.flags)
    return plain_facts


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "severity": finding.severity.value,
        "title": finding.title,
        "evidence": finding.evidence,
        "why": finding.why,
        "fix": finding.fix,
    }
