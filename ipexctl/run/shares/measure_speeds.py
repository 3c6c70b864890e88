"""Measure the speed of all hosts of a run at the same time, only for scripts that use shares."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from ipexctl import trace
from ipexctl.base.host_outcome import HostDown
from ipexctl.base.values import plain
from ipexctl.common.speed_answers import HostSpeed, SpeedEvent, TorchLoaded
from ipexctl.inventory.inventory import Host
from ipexctl.machines.fleet import Fleet, fan_out
from ipexctl.machines.wire.frames import Frame
from ipexctl.run.network import rate_cache
from ipexctl.run.plan.launch import PlannedHost, RunRequest
from ipexctl.run.plan.placement import decide_placement
from ipexctl.run.plan.tuning_variables import Site
from ipexctl.run.shares import host_shares
from ipexctl.run.shares.host_shares import Speeds

SECONDS = 0.75
LOADING = 90.0  # seconds for a cold import of torch from a slow disk

Note = Callable[[str], None]


def measure_shares(
    fleet: Fleet, nodes: Sequence[PlannedHost], request: RunRequest, note: Note
) -> list[PlannedHost]:
    """Return the nodes, each with the share of its ranks."""
    sites = decide_placement(nodes, request).sites
    ranks = {site.node.host.name: len(site.places.parts) for site in sites}
    speeds = _recall_or_measure(fleet, sites, note) if len(sites) > 1 else {}
    shares = host_shares.compute_batch_shares(ranks, speeds)
    return [replace(node, share=shares.get(node.host.name)) for node in nodes]


def _recall_or_measure(fleet: Fleet, sites: Sequence[Site], note: Note) -> Speeds:
    """Return the hosts' speeds: remembered ones, or measured now."""
    mark = host_shares.speeds_mark(sites)
    if speeds := rate_cache.recall_rates(rate_cache.SPEEDS, mark):
        return speeds
    with trace.span("speeds"):
        speeds, errors = _measure_speeds(fleet, sites)
    if errors:
        note(f"cannot measure what hosts compute, so IPEXCTL_SHARE is equal: {errors[0]}")
    elif not any(site.node.facts.condition.load.runs for site in sites):
        # valid for an hour: other programs on the hosts change
        rate_cache.remember_rates(rate_cache.SPEEDS, mark, speeds, complete=False)
    return speeds


def _measure_speeds(fleet: Fleet, sites: Sequence[Site]) -> tuple[Speeds, list[str]]:
    """Measure all hosts at the same time; return their speeds, and errors."""
    barrier = threading.Barrier(len(sites))
    by_host = {site.node.host: site for site in sites}

    def one(host: Host) -> float | str:
        agent = fleet.agents[host]

        def begin(frame: Frame) -> None:
            if SpeedEvent.kind_of(frame.header) is TorchLoaded:
                with suppress(threading.BrokenBarrierError):
                    barrier.wait(LOADING)
                agent.feed(number, {"go": True})

        try:
            number = agent.start("facts.read_speed.speed", _speed_request(by_host[host]))
            speed = agent.wait(number, timeout=LOADING, on_event=begin).done.read(HostSpeed)
        finally:
            barrier.abort()  # the others do not wait for one that has failed
        return speed.fp32 or plain(speed.why, 200) or "no torch"

    outcomes = fan_out(list(by_host), one, forks=len(by_host))
    speeds = {host.name: speed for host, speed in outcomes.items() if isinstance(speed, float)}
    downs = {h.name: d.brief if isinstance(d, HostDown) else d for h, d in outcomes.items()}
    errors = [f"{name}: {why}" for name, why in downs.items() if isinstance(why, str)]
    return speeds, errors


def _speed_request(site: Site) -> dict[str, object]:
    """Return the request: all threads of its ranks, on the CPUs of the plan."""
    parts = site.places.parts
    return {
        "python": f"{site.node.prepared.prefix}/bin/python3",
        "threads": (site.places.threads or 1) * len(parts),
        "cpus": sorted({cpu for part in parts for cpu in part.cpus}),
        "seconds": SECONDS,
    }
