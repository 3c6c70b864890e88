"""Compute each rank's share of the global batch from the speed of hosts: IPEXCTL_SHARE."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from ipexctl.run.plan.launch import Share
from ipexctl.run.plan.tuning_variables import Site

EQUAL = 1.2  # how many times as fast; a smaller difference may be chance
Speeds = Mapping[str, float]  # host -> GFLOP/s of all its ranks together


def compute_batch_shares(ranks: Mapping[str, int], speeds: Speeds) -> dict[str, Share]:
    """Return the share of a rank of each host; those of all ranks sum to 1. `ranks`: per host."""
    world = sum(ranks.values())
    if len(ranks) == 1:
        return _equal_shares(ranks, world, "all ranks are on one host")
    if ranks.keys() - speeds.keys():
        return _equal_shares(ranks, world, "equal: not all hosts could be measured")
    per_rank = {host: speeds[host] / count for host, count in ranks.items()}
    slow, fast = min(per_rank.values()), max(per_rank.values())
    if fast < EQUAL * slow:
        return _equal_shares(ranks, world, f"equal: {slow:.3g} to {fast:.3g} GFLOP/s per rank")
    total = sum(speeds[host] for host in ranks)
    return {
        host: Share(speed / total, f"{speed:.3g} of {total:.3g} GFLOP/s, measured")
        for host, speed in per_rank.items()
    }


def _equal_shares(ranks: Mapping[str, int], world: int, why: str) -> dict[str, Share]:
    return dict.fromkeys(ranks, Share(1 / world, why))


def speeds_mark(sites: Sequence[Site]) -> str:
    """Return a mark of these hosts since their boot, with their environment and placement."""
    marks = sorted(
        [
            site.node.host.name,
            site.node.facts.boot_id or "",
            site.node.prepared.prefix,
            repr((site.places, site.node.facts.cpu.quota)),
        ]
        for site in sites
    )
    return hashlib.sha256(json.dumps(marks).encode()).hexdigest()[:32]
