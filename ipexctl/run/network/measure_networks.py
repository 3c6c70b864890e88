"""Measure the networks that all hosts of a run share, once, and choose the one for its ranks.

Each host sends to the next one for a moment over each network in turn, as doctor measures links:
first every other host, then those between them, because on a slow link acknowledgements wait behind
data. Not imported if the hosts have one network, or the user has chosen one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from ipexctl import trace
from ipexctl.base.host_outcome import HostDown
from ipexctl.common.port_answers import PortOpened
from ipexctl.common.speed_answers import LinksMeasured
from ipexctl.facts import speed_facts
from ipexctl.inventory.inventory import Host
from ipexctl.local.run_options import Ports
from ipexctl.machines.fleet import Fleet, fan_out
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.network import network_choice, rate_cache
from ipexctl.run.network.network_choice import Network, NetworkCandidates, NetworkChoice, Rates
from ipexctl.run.plan.launch import PlannedHost, RunRequest
from ipexctl.run.plan.ranks_per_host import share_out

SECONDS = 0.25  # seconds at most for each network and direction
IN_ALL = 0.9  # seconds for all measurements
BYTES = 1 << 28  # bytes at most
PATIENCE = 0.2  # seconds to connect
_QUIET = 3.0  # seconds that a host may be silent

Note = Callable[[str], None]
_T = TypeVar("_T")


@dataclass(frozen=True)
class NetworkRates:
    rates: Rates  # of the networks on which every link could be measured
    error: str = ""  # why a link could not be measured, the first one


def choose_network(
    fleet: Fleet, nodes: Sequence[PlannedHost], request: RunRequest, note: Note
) -> NetworkChoice | None:
    """Choose a network; None if there is only one. Measure each set of hosts once."""
    counts = share_out(nodes, request)
    used = [node for node, count in zip(nodes, counts, strict=True) if count]
    usable = network_choice.find_candidate_networks(used)
    if not usable:
        return None
    busy = any(node.facts.condition.load.runs for node in used)
    measure = partial(_measure_networks, fleet, used, usable, request.ports)
    return decide_network(usable, measure, note, keep=not busy)


def decide_network(
    usable: NetworkCandidates, measure: Callable[[], NetworkRates], note: Note, *, keep: bool = True
) -> NetworkChoice:
    """Decide, by earlier rates or by measuring. `keep` False: other runs use the networks now."""
    rates = rate_cache.recall_rates(rate_cache.NETWORKS, usable.mark)
    if rates is None:
        with trace.span("networks"):
            measured = measure()
        rates, missing = measured.rates, [n for n in usable.all if n.name not in measured.rates]
        if keep:
            rate_cache.remember_rates(rate_cache.NETWORKS, usable.mark, rates, complete=not missing)
        if missing:
            names = " and ".join(network.title for network in missing)
            note(f"cannot measure {names}: {measured.error or 'no data arrived'}")
    chosen = network_choice.choose_fastest_network(usable, rates)
    if chosen.note:
        note(chosen.note)
    return chosen


# --- the hosts ------------------------------------------------------------------------------------


def _measure_networks(
    fleet: Fleet, nodes: Sequence[PlannedHost], usable: NetworkCandidates, bounds: Ports | None
) -> NetworkRates:
    """Let all hosts listen; then each sends to the next one, every other host at a time."""
    hosts, errors = [node.host for node in nodes], list[str]()

    def ask(op: str, kind: type[_T], requests: Mapping[Host, Mapping[str, Any]]) -> dict[Host, _T]:
        def one(host: Host) -> _T:
            return fleet.agents[host].call(op, dict(requests[host]), timeout=_QUIET).done.read(kind)

        outcomes = fan_out(list(requests), one, forks=max(1, len(requests)))
        downs = [each for each in outcomes.values() if isinstance(each, HostDown)]
        errors.extend(f"{down.host}: {down.brief}" for down in downs)
        return {host: each for host, each in outcomes.items() if not isinstance(each, HostDown)}

    halves = [i % 2 for i in range(len(hosts) - 1)] + [1 + len(hosts) % 2]
    token = secrets.token_hex(16)
    request: dict[str, Any] = {"token": token, "size": BYTES, "patience": PATIENCE}
    request["seconds"] = min(SECONDS, IN_ALL / (1 + max(halves)) / len(usable.all))
    begin = {"token": token, "ports": bounds}
    answers = ask("facts.read_speed.serve", PortOpened, dict.fromkeys(hosts, begin))
    ports = {host: opened.port for host, opened in answers.items()}
    next_of = dict(zip(hosts, [*hosts[1:], hosts[0]], strict=True))
    rates: dict[str, list[float]] = {network.name: [] for network in usable.all}
    for half in sorted({*halves}):
        senders = [host for host, turn in zip(hosts, halves, strict=True) if turn == half]
        orders = {
            host: {**request, "targets": _network_targets(usable.all, peer.name, ports[peer])}
            for host in senders
            if (peer := next_of[host]) in ports
        }
        for host, done in ask("facts.read_speed.link", LinksMeasured, orders).items():
            for link in speed_facts.links_to(host.name, list(rates), done):
                if link.rate:
                    rates[link.target].append(link.rate)
                else:
                    errors.append(f"{host.name} to {next_of[host].name}: {link.error}")

    def close(host: Host) -> None:
        request = {"port": ports[host]}
        fleet.agents[host].call("connection.listeners.close", request, timeout=_QUIET)

    fan_out(list(ports), close, forks=max(1, len(ports)))
    slowest = {name: min(each) for name, each in rates.items() if len(each) == len(hosts)}
    return NetworkRates(slowest, next(iter(errors), ""))


def _network_targets(
    networks: Sequence[Network], host: str, port: int
) -> list[tuple[str, str, int]]:
    """Return the addresses of that host, one per network."""
    members = ((network.name, member) for network in networks for member in network.members)
    return [(name, member.address, port) for name, member in members if member.host == host]
