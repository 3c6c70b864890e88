"""How many ranks a host has room for: far more than that is probably a typing error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil

from ipexctl.base.sizes import size
from ipexctl.errors import InputError
from ipexctl.facts.facts import Facts
from ipexctl.facts.usable_cores import fast_cores
from ipexctl.inventory.hostfile_text import fold
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.launch import LaunchPlan

PER_CORE = 4  # ranks; up to here each has one thread and the plan has a note
PER_RANK = 256 << 20  # bytes: memory of a process that has imported torch 2.13


@dataclass(frozen=True)
class _Excess:
    text: str
    most: int


def checked(plan: LaunchPlan, facts: Mapping[str, Facts], *, force: bool) -> LaunchPlan:
    """Raises InputError if hosts have no room for their ranks; with `force`, a note instead."""
    found: dict[_Excess, list[str]] = {}
    for host in plan.hosts:
        for excess in _excesses(facts[host.host], len(host.ranks)):
            found.setdefault(excess, []).append(host.host)
    lines = [f"{fold(names)}: {excess.text}" for excess, names in found.items()]
    if force or not lines:
        return replace(plan, notes=(*plan.notes, *lines))
    names = list(dict.fromkeys(name for each in found.values() for name in each))
    most = min(excess.most for excess in found)
    raise InputError(
        f"{plan.world_size} ranks are too many for {fold(names)}",
        why="\n".join(lines),
        hint=f"-n {most * len(plan.hosts)} -ppn {most}   # or use more hosts\n"
        "or --force to start anyway",
        slug="rank-count-too-big",
    )


def _excesses(facts: Facts, ranks: int) -> Iterator[_Excess]:
    cores = len(fast_cores(facts.cpu))
    if facts.cpu.quota is not None:
        cores = min(cores, ceil(facts.cpu.quota))
    if cores and ranks > cores * PER_CORE:
        many = "1 core" if cores == 1 else f"{cores} cores"
        yield _Excess(
            f"{ranks} ranks on {many}; at most {cores * PER_CORE}, {PER_CORE} per core",
            cores * PER_CORE,
        )
    known = [n for n in (facts.mem.available, facts.mem.limit) if n is not None]
    if known and ranks > 1 and ranks * PER_RANK > min(known):
        most = max(1, min(known) // PER_RANK)
        yield _Excess(
            f"{ranks} ranks need at least {size(ranks * PER_RANK)} of memory, but only "
            f"{size(min(known))} is available; at most {most}, because PyTorch alone takes "
            f"{size(PER_RANK)} per rank",
            most,
        )
