"""doctor --level std: what hosts compute, then what the links between them carry."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ipexctl.core import bench
from ipexctl.core import facts as of
from ipexctl.core.bench import HostBench, Link, Measured
from ipexctl.core.model import Facts, Host, HostDown
from ipexctl.hosts.agent import Agent
from ipexctl.hosts.fleet import fan_out
from ipexctl.verbs.target import root_of

CHILD_TIMEOUT = 90.0  # most of it for a cold import of torch from a slow disk
LINK_SECONDS = 0.5
LINK_BYTES = 64 << 20
_QUIET = 15.0  # how long a host may say nothing


@dataclass(frozen=True)
class Subject:
    """A host that is still connected."""

    host: Host
    agent: Agent
    facts: Facts

    @property
    def able(self) -> bool:
        return self.agent.hello.kind == "python"


def measure(subjects: Sequence[Subject], root: str, python: str, forks: int) -> Measured:
    """Compute first, links after: each would disturb the other."""
    able = {s.host.name: s for s in subjects if s.able}
    return Measured(_computed(able, root, python, forks), _linked(able, forks))


def _computed(
    able: Mapping[str, Subject], root: str, python: str, forks: int
) -> tuple[HostBench, ...]:
    waves, left = bench.waves([s.facts for s in able.values()])

    def one(host: Host) -> HostBench:
        subject = able[host.name]
        threads = of.cores(subject.facts) or 1
        args = {
            "root": root_of(host, root),
            "python": python,
            "threads": threads,
            "timeout": CHILD_TIMEOUT,
        }
        reply = subject.agent.call("bench.host", args, timeout=_QUIET)
        return bench.host_bench(host.name, reply.done)

    found: dict[str, HostBench] = {}
    for wave in waves:
        hosts = [able[name].host for name in wave]
        for host, outcome in fan_out(hosts, one, forks=forks).items():
            if isinstance(outcome, HostDown):
                outcome = HostBench(host.name, "failed", outcome.what)
            found[host.name] = outcome
    why = f"more than {bench.SAME_MACHINE} of these hosts are one machine"
    found.update((name, HostBench(name, "skipped", why)) for name in left)
    return tuple(found[name] for name in able)


def _linked(able: Mapping[str, Subject], forks: int) -> tuple[Link, ...]:
    token = secrets.token_hex(16)

    def serve(host: Host) -> int:
        reply = able[host.name].agent.call("bench.serve", {"token": token}, timeout=_QUIET)
        return reply.done.whole("port", 65535)

    addressed = [s.host for s in able.values() if of.peer_address(s.facts)]
    if len(addressed) < 2:
        return ()
    answers = fan_out(addressed, serve, forks=forks)
    ports = {h.name: port for h, port in answers.items() if isinstance(port, int)}
    found: list[Link] = []
    for group in bench.rounds(list(ports)):
        plan = dict(group)

        def one(host: Host, plan: Mapping[str, str] = plan) -> list[Link]:
            name = plan[host.name]
            target = [name, of.peer_address(able[name].facts), ports[name]]
            args = {
                "token": token,
                "targets": [target],
                "bytes": LINK_BYTES,
                "seconds": LINK_SECONDS,
            }
            reply = able[host.name].agent.call("bench.link", args, timeout=_QUIET)
            return bench.links(host.name, [name], reply.done)

        outcomes = fan_out([able[name].host for name in plan], one, forks=bench.AT_ONCE)
        for host, outcome in outcomes.items():
            if isinstance(outcome, HostDown):
                outcome = [Link(host.name, plan[host.name], error=outcome.what)]
            found += outcome
    return tuple(found)
