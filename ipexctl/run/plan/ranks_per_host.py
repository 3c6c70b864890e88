"""Decide how many ranks each host gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil

from ipexctl.base.retry_command import FORCE
from ipexctl.base.sizes import binary_size, count
from ipexctl.errors import InputError
from ipexctl.facts import usable_cores
from ipexctl.facts.facts import Facts
from ipexctl.facts.usable_cores import fast_cores
from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.launch import LaunchPlan, PlannedHost, RunRequest

MOST_RANKS = 1 << 16  # ranks in all; a typo must not fill the memory of hosts


def share_out(nodes: Sequence[PlannedHost], request: RunRequest) -> list[int]:
    """Return the ranks per host, in the order of the hostfile.

    -ppn is for every host, and fills them in order. Without it slots count, and for a host without
    slots its default. -n alone is spread evenly if no host has slots.
    """
    n, ppn = request.n, request.ppn
    for name, value in (("-n", n), ("-ppn", ppn)):
        if value is not None and value < 1:
            raise InputError(f"{name} {value}: must be at least 1", slug="rank-count-too-small")
        if value is not None and value > MOST_RANKS:
            raise InputError(
                f"{name} {value}: more than {MOST_RANKS} ranks are not supported",
                slug="rank-count-too-big",
            )
    limits, limited_by = _rank_limits(nodes, request)
    if n is None:
        return limits
    if limited_by:
        return _fill_hosts(limits, n, limited_by)
    each, extra = divmod(n, len(nodes))
    return [each + (1 if i < extra else 0) for i in range(len(nodes))]


def find_candidates(nodes: Sequence[PlannedHost], request: RunRequest) -> tuple[str, ...]:
    """Return the hosts of which a queued run takes the first that are free; () if it is not queued,
    needs all of them, or needs more or fewer of them depending on which."""
    if not request.queue:
        return ()
    limits, limited_by = _rank_limits(nodes, request)
    room = {min(limit, request.n or limit) for limit in limits} if limited_by else {1}
    needed = sum(1 for ranks in share_out(nodes, request) if ranks)
    return tuple(node.host.name for node in nodes) if len(room) == 1 and needed < len(nodes) else ()


def fit_rank_count(nodes: Sequence[PlannedHost], request: RunRequest) -> int | None:
    """Return -n, limited to the capacity of these hosts."""
    limits, limited_by = _rank_limits(nodes, request)
    return min(request.n, sum(limits)) if request.n and limited_by else request.n


def rank_count_notes(
    nodes: Sequence[PlannedHost], counts: Sequence[int], request: RunRequest
) -> Iterator[str]:
    """Yield notes about what the user may not have meant."""
    pairs = list(zip(nodes, counts, strict=True))
    any_of = find_candidates(nodes, request)
    if (idle := [node.host.name for node, count in pairs if not count]) and not any_of:
        yield f"without ranks: {', '.join(idle)}"
    n, ppn = request.n, request.ppn
    if ppn is None:
        return
    if n is not None and n % ppn:
        last = next(node.host.name for node, count in pairs if count == n % ppn)
        last = "the last host" if any_of else last
        yield f"-n {n} is not a multiple of -ppn {ppn}: {last} has {n % ppn} of them"
    beyond = [node.host.name for node, count in pairs if 0 < node.host.slots < count]
    if beyond:
        yield f"-ppn {ppn} is more than the slots in the hostfile: {fold(beyond)}"


def _rank_limits(nodes: Sequence[PlannedHost], request: RunRequest) -> tuple[list[int], str]:
    """Return the ranks of each host without -n, and what limits them; "": only -n does."""
    if request.ppn is not None:
        return [request.ppn] * len(nodes), "-ppn"
    limits = [node.host.slots or usable_cores.default_ranks(node.facts.cpu) for node in nodes]
    slots = [node.host.slots for node in nodes]
    if all(slots):
        return limits, "slots in the hostfile"
    if any(slots):
        return limits, "their slots in the hostfile or, without slots, one rank per NUMA node"
    return limits, ""


def _fill_hosts(limits: list[int], n: int, limited_by: str) -> list[int]:
    """Distribute n ranks, filling each host to its limit. Raise InputError if they do not fit."""
    if n > sum(limits):
        hosts = "1 host has" if len(limits) == 1 else f"{len(limits)} hosts have"
        raise InputError(
            f"-n {n} ranks do not fit: {hosts} room for {sum(limits)} ({limited_by})",
            hint=f"-n {sum(limits)}   # or use more hosts, or a larger -ppn",
            slug="ranks-do-not-fit",
        ).with_fewer(sum(limits))
    counts = []
    for limit in limits:
        counts.append(min(limit, n))
        n -= counts[-1]
    return counts


PER_CORE = 4  # ranks; up to here each has one thread and the plan has a note
PER_RANK = 256 << 20  # bytes: memory of a process that has imported torch 2.13


@dataclass(frozen=True)
class _Excess:
    text: str
    most: int


def check_rank_room(plan: LaunchPlan, facts: Mapping[str, Facts], *, force: bool) -> LaunchPlan:
    """Raise InputError if hosts have no room for their ranks; with `force`, add a note instead."""
    by_excess: dict[_Excess, list[str]] = {}
    for host in plan.hosts:
        for excess in _excesses(facts[host.host], len(host.ranks)):
            by_excess.setdefault(excess, []).append(host.host)
    lines = [f"{fold(names)}: {excess.text}" for excess, names in by_excess.items()]
    if force or not lines:
        return replace(plan, notes=(*plan.notes, *lines))
    names = list(dict.fromkeys(name for each in by_excess.values() for name in each))
    most = min(excess.most for excess in by_excess)
    raise InputError(
        f"{plan.world_size} ranks are too many for {fold(names)}",
        why="\n".join(lines),
        hint=f"-n {most * len(plan.hosts)} -ppn {most}   # or use more hosts\n{FORCE}",
        slug="rank-count-too-big",
    ).with_fewer(most * len(plan.hosts), most)


def _excesses(facts: Facts, ranks: int) -> Iterator[_Excess]:
    """Yield how the ranks exceed the cores and the memory of a host."""
    cores = len(fast_cores(facts.cpu))
    if facts.cpu.quota is not None:
        cores = min(cores, ceil(facts.cpu.quota))
    if cores and ranks > cores * PER_CORE:
        yield _Excess(
            f"{ranks} ranks on {count(cores, 'core')}; at most {cores * PER_CORE}, {PER_CORE} per "
            "core",
            cores,
        )
    limits = [n for n in (facts.mem.available, facts.mem.limit) if n is not None]
    if limits and ranks > 1 and ranks * PER_RANK > min(limits):
        most = max(1, min(limits) // PER_RANK)
        yield _Excess(
            f"{ranks} ranks need at least {binary_size(ranks * PER_RANK)} of memory, but only "
            f"{binary_size(min(limits))} is available; at most {most}, because PyTorch alone takes "
            f"{binary_size(PER_RANK)} per rank",
            most,
        )
