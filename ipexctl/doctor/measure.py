"""doctor --level std: measure how fast hosts compute, then the links between them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from ipexctl.base.host_outcome import HostDown
from ipexctl.common.port_answers import PortOpened
from ipexctl.common.speed_answers import HostSpeed, LinksMeasured, PacketsCounted
from ipexctl.facts import host_facts as of
from ipexctl.facts import speed_facts
from ipexctl.facts.facts import Facts
from ipexctl.facts.speed_facts import HostBench, Losses, MeasuredLink, Measurements
from ipexctl.inventory.inventory import Host
from ipexctl.machines.fleet import Fleet, fan_out
from ipexctl.quick_dataclass import dataclass

CHILD_TIMEOUT = 90.0  # most of it for a cold import of torch from a slow disk
LINK_SECONDS = 0.5
LINK_BYTES = 64 << 20
_QUIET = 15.0  # how long a host may stay silent


def measure_hosts(
    fleet: Fleet, facts: Mapping[Host, Facts], python: str, env: str, *, compute: bool = True
) -> Measurements:
    """Measure computing first and links afterwards: each would disturb the other."""
    capable = {h: f for h, f in facts.items() if fleet.agents[h].hello.kind == "python"}
    computed = _measure_compute(fleet, capable, python, env) if compute else ()
    servers = _start_servers(fleet, capable)
    return Measurements(computed, _measure_links(fleet, servers), _measure_losses(fleet, servers))


def _measure_compute(
    fleet: Fleet, capable: Mapping[Host, Facts], python: str, env: str
) -> tuple[HostBench, ...]:
    """Measure the computing speed of all hosts; containers on one machine take turns."""
    waves, skipped = speed_facts.benchmark_waves(list(capable.values()))

    def one(host: Host) -> HostBench:
        args = {
            "root": fleet.root_of(host),
            "environment": env,
            "python": python,
            "threads": of.count_usable_cores(capable[host]) or 1,
            "timeout": CHILD_TIMEOUT,
        }
        reply = fleet.agents[host].call("facts.read_speed.host", args, timeout=_QUIET)
        return speed_facts.host_bench(host.name, reply.done.read(HostSpeed))

    benches: dict[str, HostBench] = {}
    for wave in waves:
        hosts = [host for host in capable if host.name in wave]
        for host, outcome in fan_out(hosts, one, forks=fleet.target.forks).items():
            if isinstance(outcome, HostDown):
                outcome = HostBench(host.name, "failed", outcome.brief)
            benches[host.name] = outcome
    why = f"more than {speed_facts.SAME_MACHINE} of these hosts are one machine"
    benches.update((name, HostBench(name, "skipped", why)) for name in skipped)
    return tuple(benches[host.name] for host in capable)


@dataclass(frozen=True)
class _Servers:
    """The hosts that accept measuring connections, by name, from peers that know the token."""

    token: str
    hosts: Mapping[str, Host]
    at: Mapping[str, tuple[str, int]]


def _start_servers(fleet: Fleet, capable: Mapping[Host, Facts]) -> _Servers:
    """Start the servers for measurements of links on all hosts that have an address."""
    token = secrets.token_hex(16)

    def serve(host: Host) -> int:
        reply = fleet.agents[host].call("facts.read_speed.serve", {"token": token}, timeout=_QUIET)
        return reply.done.read(PortOpened).port

    addressed = [host for host, facts in capable.items() if of.peer_address(facts)]
    answers = fan_out(addressed, serve, forks=fleet.target.forks) if len(addressed) > 1 else {}
    ports = {h: port for h, port in answers.items() if isinstance(port, int)}
    addresses = {h.name: (of.peer_address(capable[h]), port) for h, port in ports.items()}
    return _Servers(token, {h.name: h for h in ports}, addresses)


def _measure_losses(fleet: Fleet, servers: _Servers) -> tuple[Losses, ...]:
    """Measure the losses from each host to the next, all at once: that takes little bandwidth."""
    names = list(servers.at)
    next_of = dict(zip(names, [*names[1:], *names[:1]], strict=True)) if len(names) > 1 else {}

    def one(host: Host) -> Losses | None:
        target = next_of[host.name]
        args = {"token": servers.token, "target": servers.at[target]}
        answer = fleet.agents[host].call("facts.read_speed.losses", args, timeout=_QUIET).done
        return speed_facts.losses_to(host.name, target, answer.read(PacketsCounted))

    outcomes = fan_out([servers.hosts[name] for name in next_of], one, forks=fleet.target.forks)
    return tuple(losses for losses in outcomes.values() if isinstance(losses, Losses))


def _measure_links(fleet: Fleet, servers: _Servers) -> tuple[MeasuredLink, ...]:
    """Measure the links in rounds, so that no host is part of two measurements at a time."""
    links: list[MeasuredLink] = []
    for group in speed_facts.plan_rounds(list(servers.at)):
        plan = dict(group)

        def one(host: Host, plan: Mapping[str, str] = plan) -> list[MeasuredLink]:
            name = plan[host.name]
            args = {
                "token": servers.token,
                "targets": [[name, *servers.at[name]]],
                "size": LINK_BYTES,
                "seconds": LINK_SECONDS,
            }
            reply = fleet.agents[host].call("facts.read_speed.link", args, timeout=_QUIET)
            return speed_facts.links_to(host.name, [name], reply.done.read(LinksMeasured))

        hosts = [servers.hosts[name] for name in plan]
        outcomes = fan_out(hosts, one, forks=speed_facts.AT_ONCE)
        for host, outcome in outcomes.items():
            if isinstance(outcome, HostDown):
                outcome = [MeasuredLink(host.name, plan[host.name], error=outcome.brief)]
            links += outcome
    return tuple(links)
