"""Measures the networks that all hosts of a run have, once, and chooses the one for its ranks.

Each host sends to the next one for a moment over each network in turn: first every other host, then
those between them. Not imported where the hosts have one network, or the user has chosen one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ipexctl import trace
from ipexctl.base.host_answer import Answer
from ipexctl.base.host_outcome import HostDown
from ipexctl.base.values import count_or_none, listed, plain
from ipexctl.facts.reader import positive
from ipexctl.inventory.inventory import Host
from ipexctl.machines.fleet import Fleet, fan_out
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.network import network_choice, rate_cache
from ipexctl.run.network.network_choice import Candidates, Network, NetworkChoice, Rates
from ipexctl.run.plan.plan_request import Node, RunRequest
from ipexctl.run.plan.ranks_per_host import share_out
from ipexctl.run.plan.run_options import Ports

SECONDS = 0.25  # at most for each network and direction
IN_ALL = 0.9  # seconds
_QUIET = 3.0  # how long a host may say nothing

Note = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    rates: Rates  # of the networks on which every link could be measured
    error: str = ""  # of the first link that could not


def choose(
    fleet: Fleet, nodes: Sequence[Node], request: RunRequest, note: Note
) -> NetworkChoice | None:
    """None where there is nothing to choose between."""
    counts = share_out(nodes, request)
    used = [node for node, count in zip(nodes, counts, strict=True) if count]
    found = network_choice.candidates(used)
    if not found:
        return None
    busy = any(node.facts.condition.load.runs for node in used)
    measure = partial(_measure, fleet, used, found, request.ports)
    return decided(found, rate_cache.rates_file(), measure, note, keep=not busy)


def faster(nodes: Sequence[Node], request: RunRequest) -> str:
    """A network that earlier runs have found faster than the one the user has chosen; "": none."""
    counts = share_out(nodes, request)
    found = network_choice.candidates(
        [node for node, count in zip(nodes, counts, strict=True) if count]
    )
    rates = found and rate_cache.recall(rate_cache.rates_file(), found.mark)
    named = dict(request.env).get("GLOO_SOCKET_IFNAME")
    chosen = network_choice.choose(found, rates) if found and rates else None
    return "" if chosen is None or named in chosen.taken.cards else chosen.compared


def decided(
    found: Candidates, path: Path | None, measure: Callable[[], Measured], note: Note,
    *, keep: bool = True,
) -> NetworkChoice:  # fmt: skip
    """`keep`: False where other runs used the networks meanwhile."""
    rates = rate_cache.recall(path, found.mark)
    if rates is None:
        with trace.span("networks"):
            measured = measure()
        rates, missing = measured.rates, [n for n in found.all if n.name not in measured.rates]
        if keep:
            rate_cache.remember(path, found.mark, rates, complete=not missing)
        if missing:
            names = " and ".join(one.title for one in missing)
            note(f"cannot measure {names}: {measured.error or 'no data arrived'}")
    chosen = network_choice.choose(found, rates)
    if chosen.note:
        note(chosen.note)
    return chosen


# --- the hosts ------------------------------------------------------------------------------------


def _measure(
    fleet: Fleet, nodes: Sequence[Node], found: Candidates, bounds: Ports | None
) -> Measured:
    """Three questions to all hosts: listen; send to the next host; what came in?"""
    hosts, errors = [node.host for node in nodes], list[str]()

    def ask(op: str, asked: Mapping[Host, Mapping[str, Any]]) -> dict[Host, Answer]:
        def one(host: Host) -> Answer:
            name = f"facts.network_rates.{op}"
            return fleet.agents[host].call(name, dict(asked[host]), timeout=_QUIET).done

        outcomes = fan_out(list(asked), one, forks=len(asked))
        downs = [each for each in outcomes.values() if isinstance(each, HostDown)]
        errors.extend(f"{down.host}: {down.brief}" for down in downs)
        return {host: each for host, each in outcomes.items() if not isinstance(each, HostDown)}

    halves = [i % 2 for i in range(len(hosts) - 1)] + [1 + len(hosts) % 2]
    seconds = min(SECONDS, IN_ALL / (1 + max(halves)) / len(found.all))
    about = {"token": secrets.token_hex(16), "seconds": seconds}
    listen = {**about, "streams": len(found.all), "ports": bounds}
    heard = ask("listen", dict.fromkeys(hosts, listen))
    ports = {host: port for host, done in heard.items() if (port := _port(done))}
    next_of = dict(zip(hosts, [*hosts[1:], hosts[0]], strict=True))
    targets = {
        host: _targets(found.all, after.name, ports[after], half)
        for (host, after), half in zip(next_of.items(), halves, strict=True)
        if after in ports
    }
    sent = ask("send", {host: {**about, "targets": those} for host, those in targets.items()})
    came = ask("rates", {host: {"port": port} for host, port in ports.items()})
    for host, done in sent.items():
        rows = [row for row in map(listed, listed(done.get("errors"))) if len(row) == 2]
        errors += [f"{host.name} to {next_of[host].name}: {plain(row[1])}" for row in rows]
    return Measured(_slowest(found.all, hosts, came), next(iter(errors), ""))


def _port(done: Answer) -> int:
    port = count_or_none(done.get("port")) or 0
    return port if port < 65536 else 0


def _targets(
    networks: Sequence[Network], name: str, port: int, half: int
) -> list[tuple[int, int, str, int]]:
    """The ways to the host of that name: each network has its turn, once for each half."""
    address = [{member.host: member.address for member in one.members}[name] for one in networks]
    first = half * len(networks)
    return [(number, first + number, each, port) for number, each in enumerate(address)]


def _slowest(
    networks: Sequence[Network], hosts: Sequence[Host], came: Mapping[Host, Answer]
) -> Rates:
    """Of the networks by which something came in on every host."""
    found: dict[str, float] = {}
    for number, one in enumerate(networks):
        rates = [_rate(came[host], number) if host in came else None for host in hosts]
        known = [rate for rate in rates if rate]
        if len(known) == len(hosts):
            found[one.name] = min(known)
    return found


def _rate(done: Answer, number: int) -> float | None:
    """What one host received by that network. An agent may say anything."""
    rows = (listed(row) for row in listed(done.get("rates")))
    return next((positive(row[1]) for row in rows if len(row) == 2 and row[0] == number), None)
