"""doctor: ask all hosts what they are, let them try each other, and judge.

Two phases over one connection per host: facts from all, then everybody connects to the others. With
the level `std` a third one: what they compute and what the links carry (verbs/bench.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ipexctl.core import shell
from ipexctl.core.bench import Measured
from ipexctl.core.checks import run_all
from ipexctl.core.checks.cluster import Cluster
from ipexctl.core.checks.network import pairs
from ipexctl.core.facts import is_address, peer_address, plain
from ipexctl.core.model import Facts, Host, HostDown, Inventory, Peer
from ipexctl.core.recommend import recommend
from ipexctl.core.report import Report
from ipexctl.core.values import listed, texts
from ipexctl.errors import InputError
from ipexctl.hosts.agent import AHEAD, Agent, connect
from ipexctl.hosts.fleet import fan_out
from ipexctl.hosts.transport import Transport
from ipexctl.verbs.bench import Subject, measure
from ipexctl.verbs.facts import ROOT, answer, question
from ipexctl.verbs.hints import options as options_of
from ipexctl.verbs.hints import other_pythons, spelled_downs, with_options
from ipexctl.verbs.last import remember
from ipexctl.verbs.target import AnyTransport, Target, inventory, root_of
from ipexctl.verbs.versions import table

LEVELS = ("quick", "std")
PEER_TIMEOUT = 2.0
_CLOSERS = 16
_BESIDE = "beside MASTER_PORT: "  # in front of the name, for the second port of the same host


@dataclass(frozen=True)
class Options:
    """`python` is the interpreter whose torch the level std measures; "": that of the stack."""

    root: str = ROOT
    level: str = "quick"
    python: str = ""


@dataclass(frozen=True)
class Seen:
    """A connected host that listens on `port` for the others (None: it does not)."""

    agent: Agent
    facts: Facts
    port: int | None


def examine(target: Target, root: str = ROOT, options: Options | None = None) -> Report:
    """Raises InputError for hosts that cannot be named; all else is in the report."""
    hosts = inventory(target)
    transport = AnyTransport(target, hosts)
    try:
        report = examine_hosts(hosts, transport, options or Options(root), target)
    finally:
        transport.close()
    remember(hosts, {h.name: report.state(h.name) for h in hosts.hosts})
    return report


def examine_hosts(
    hosts: Inventory,
    transport: Transport,
    options: Options | None = None,
    target: Target | None = None,
) -> Report:
    """The same for hosts that are known already, over a given transport."""
    target, options = target or Target(), options or Options()
    if options.level not in LEVELS:
        raise InputError(f"--level {options.level}: no such level", hint=", ".join(LEVELS))
    began = time.monotonic()
    seen: dict[str, Seen] = {}

    def first(host: Host) -> Facts:
        root = root_of(host, options.root)
        asked = question(root, listen=len(hosts.hosts) > 1)
        agent = connect(transport, host, timeout=target.connect_timeout + 5, ahead=asked)
        try:
            facts, port = answer(agent, AHEAD, agent.hello.sent, root)
        except BaseException:
            agent.close()
            raise
        seen[host.name] = Seen(agent, facts, port)
        return facts

    try:
        outcomes = fan_out(hosts.hosts, first, forks=target.forks)
        tried, lost = connect_all(hosts.hosts, seen, target.forks)
        left = [h for h in hosts.hosts if h.name in seen and h.name not in {d.host for d in lost}]
        measured = _measured(left, seen, options, target.forks)
    finally:
        _close([s.agent for s in seen.values()])
    for text in other_pythons(s.agent for s in seen.values()):
        target.note(text)
    down = [o for o in outcomes.values() if isinstance(o, HostDown)] + lost
    facts = tuple(o for o in outcomes.values() if isinstance(o, Facts))
    gone = {d.host for d in down}
    peers = tuple(p for p in tried if p.target not in gone)
    alive = tuple(f for f in facts if f.host not in gone)
    cluster = Cluster(alive, peers, rows=table(), measured=measured)
    return Report(
        hosts=hosts.hosts,
        facts=facts,
        down=tuple(spelled_downs(down, target, options.root)),
        peers=peers,
        findings=with_options(run_all(cluster), target, options.root),
        seconds=time.monotonic() - began,
        named=named(target, hosts),
        root="" if options.root == ROOT else options.root,
        level=options.level,
        measured=measured,
        recommendations=recommend(cluster),
    )


def named(target: Target, hosts: Inventory) -> str:
    """The hosts as the user would name them to another command."""
    if said := options_of(target):
        return shell.quote(said)
    names = ",".join(h.name for h in hosts.hosts if not h.local)
    return shell.quote(("-H", names)) if names else ""


def _measured(
    hosts: Sequence[Host], seen: Mapping[str, Seen], options: Options, forks: int
) -> Measured:
    if options.level == "quick":
        return Measured()
    subjects = [Subject(h, seen[h.name].agent, seen[h.name].facts) for h in hosts]
    return measure(subjects, options.root, options.python, forks)


def connect_all(
    hosts: Sequence[Host], seen: Mapping[str, Seen], forks: int
) -> tuple[list[Peer], list[HostDown]]:
    """Who reaches whom, and the hosts that were lost meanwhile."""
    where = {n: (peer_address(s.facts), s.port) for n, s in seen.items() if s.port}
    beside_port = {
        n: s.facts.net.range_port
        for n, s in seen.items()
        # it listens where we came in, which others may not use: behind a forwarded port
        if s.facts.net.range_port and where.get(n, ("", 0))[0] == s.facts.net.ssh_address
    }
    able = [h for h in hosts if h.name in where and where[h.name][0]]
    plan = pairs([h.name for h in able])
    labels = {h.name for h in hosts if h.address}  # nobody is to resolve these

    def second(host: Host) -> list[Peer]:
        targets = [(name, *where[name]) for name in plan[host.name]]
        if not targets:
            return []
        beside = [(_BESIDE + n, a, beside_port[n]) for n, a, _ in targets if n in beside_port]
        names = [name for name, _, _ in targets if not is_address(name) and name not in labels]
        args = {"targets": targets + beside, "names": names, "timeout": PEER_TIMEOUT}
        reply = seen[host.name].agent.call(
            "net.connect", args, timeout=PEER_TIMEOUT + 10, total=PEER_TIMEOUT + 30
        )
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
