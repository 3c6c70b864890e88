"""What a diagnosis is made from: the looks of a run's hosts, and what is known of its ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ipexctl.run.hang.diagnosis import Situation, diagnose
from ipexctl.run.hang.evidence import RankLook, read_look
from ipexctl.run.outcome.listed_runs import Run
from ipexctl.run.outcome.run_result import Stall
from ipexctl.run.plan.launch import LaunchPlan

Spans = Sequence[tuple[str, float]]  # what, for how many seconds


def situation(
    plan: LaunchPlan, looks: Mapping[str, Any], ends: Mapping[int, str],
    quiet: float | None, silent: Spans = (), cuts: Spans = (),
) -> Situation:  # fmt: skip
    """`looks`: of each host, as it came; `ends`: how ranks ended."""
    hosts = {place.rank: host.host for host in plan.hosts for place in host.ranks}
    return Situation(
        world_size=plan.world_size,
        hosts=hosts,
        master=f"{plan.master_addr}:{plan.master_port}",
        looks=_looks(looks, hosts),
        ended=dict(ends),
        quiet=quiet,
        silent_hosts=tuple(silent),
        cuts=tuple(cuts),
    )


def stall_of(run: Run) -> Stall | None:
    """What holds a listed run up, or did when it was told to end."""
    if run.stall is None:
        return None
    found = diagnose(listed(run))
    return Stall(run.stall, found.kind.value, found.headline)


def listed(run: Run) -> Situation:
    """Of a run that is stalled, by the journals of its hosts."""
    looks = {part.host: part.look for part in run.seen if part.look is not None}
    found = tuple(look for host, raw in looks.items() for look in read_look(host, raw))
    hosts = {look.rank: look.host for look in found}
    return Situation(
        world_size=run.about.ranks,
        hosts={**hosts, **{rank: host for rank, (host, _) in run.ends.items()}},
        master="",
        looks=found,
        ended={rank: how for rank, (_, how) in run.ends.items()},
        quiet=run.stall,
        silent_hosts=(),
        cuts=run.cut,
    )


def _looks(looks: Mapping[str, Any], hosts: Mapping[int, str]) -> tuple[RankLook, ...]:
    """Of ranks that the plan has on that host."""
    found = (look for host, raw in looks.items() for look in read_look(host, raw))
    return tuple(look for look in found if hosts.get(look.rank) == look.host)
