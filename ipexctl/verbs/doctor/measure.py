"""doctor --level std: what hosts compute, then what the links between them carry."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from ipexctl.core.facts import host_facts as of
from ipexctl.core.facts import measurements
from ipexctl.core.facts.measurements import HostBench, Link, Measured
from ipexctl.core.model import Facts, Host, HostDown
from ipexctl.hosts.fleet import Fleet, fan_out

CHILD_TIMEOUT = 90.0  # most of it for a cold import of torch from a slow disk
LINK_SECONDS = 0.5
LINK_BYTES = 64 << 20
_QUIET = 15.0  # how long a host may say nothing


def measure(fleet: Fleet, facts: Mapping[Host, Facts], python: str, env: str) -> Measured:
    """Compute first, links after: each would disturb the other."""
    able = {h: f for h, f in facts.items() if fleet.agents[h].hello.kind == "python"}
    return Measured(_computed(fleet, able, python, env), _linked(fleet, able))


def _computed(
    fleet: Fleet, able: Mapping[Host, Facts], python: str, env: str
) -> tuple[HostBench, ...]:
    waves, left = measurements.benchmark_waves(list(able.values()))

    def one(host: Host) -> HostBench:
        args = {
            "root": fleet.root_of(host),
            "environment": env,
            "python": python,
            "threads": of.cores(able[host]) or 1,
            "timeout": CHILD_TIMEOUT,
        }
        reply = fleet.agents[host].call("facts.benchmark.host", args, timeout=_QUIET)
        return measurements.host_bench(host.name, reply.done)

    found: dict[str, HostBench] = {}
    for wave in waves:
        hosts = [host for host in able if host.name in wave]
        for host, outcome in fan_out(hosts, one, forks=fleet.target.forks).items():
            if isinstance(outcome, HostDown):
                outcome = HostBench(host.name, "failed", outcome.brief)
            found[host.name] = outcome
    why = f"more than {measurements.SAME_MACHINE} of these hosts are one machine"
    found.update((name, HostBench(name, "skipped", why)) for name in left)
    return tuple(found[host.name] for host in able)


def _linked(fleet: Fleet, able: Mapping[Host, Facts]) -> tuple[Link, ...]:
    by_name = {host.name: host for host in able}
    token = secrets.token_hex(16)

    def serve(host: Host) -> int:
        reply = fleet.agents[host].call("facts.benchmark.serve", {"token": token}, timeout=_QUIET)
        return reply.done.whole("port", 65535)

    addressed = [host for host, facts in able.items() if of.peer_address(facts)]
    if len(addressed) < 2:
        return ()
    answers = fan_out(addressed, serve, forks=fleet.target.forks)
    ports = {h.name: port for h, port in answers.items() if isinstance(port, int)}
    found: list[Link] = []
    for group in measurements.rounds(list(ports)):
        plan = dict(group)

        def one(host: Host, plan: Mapping[str, str] = plan) -> list[Link]:
            name = plan[host.name]
            target = [name, of.peer_address(able[by_name[name]]), ports[name]]
            args = {
                "token": token,
                "targets": [target],
                "bytes": LINK_BYTES,
                "seconds": LINK_SECONDS,
            }
            reply = fleet.agents[host].call("facts.benchmark.link", args, timeout=_QUIET)
            return measurements.links(host.name, [name], reply.done)

        outcomes = fan_out([by_name[name] for name in plan], one, forks=measurements.AT_ONCE)
        for host, outcome in outcomes.items():
            if isinstance(outcome, HostDown):
                outcome = [Link(host.name, plan[host.name], error=outcome.brief)]
            found += outcome
    return tuple(found)
