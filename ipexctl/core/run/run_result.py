"""The result of a run, from all that is known of it when it is over."""

from __future__ import annotations

from dataclasses import dataclass

from ipexctl.core.output.slow_rank import Slow
from ipexctl.core.run.outcome import (
    EXIT_NOT_TOGETHER,
    HostEnd,
    RunResult,
    same_endings,
)
from ipexctl.core.run.rank_exchange import Exchange, sentence
from ipexctl.core.run.rank_exchange import Verdict as Exchanged
from ipexctl.core.run.run_state import RunState
from ipexctl.core.run.verdict import RANK_FAILED, Verdict


@dataclass(frozen=True)
class Ending:
    """What the ranks did not tell."""

    run_id: str
    seconds: float
    hosts: tuple[HostEnd, ...]
    verdict: Verdict
    mpi_tail: tuple[str, ...]  # the last words of mpirun and its daemons
    exchange: Exchange | None = None
    require_together: bool = False
    slow: Slow | None = None


def result_of(state: RunState, ending: Ending) -> RunResult:
    found, told = ending.exchange, ending.verdict
    ended_by, code, cause = told.ended_by, told.exit_code, told.cause
    if ending.require_together and code == 0 and found and found.verdict is not Exchanged.TOGETHER:
        ended_by, code = "not-together", EXIT_NOT_TOGETHER
        cause = sentence(found, state.plan.world_size)
    first = told.first if ended_by == RANK_FAILED else None
    ends = tuple(state.ends.values())
    same = same_endings(first, ends, state.tails) if first else ()
    others = [end for end in ends if first and not end.ok and end.rank != first.rank]
    if first:
        tail = tuple(state.tails.get(first.rank) or filter(None, [told.last]))
    else:
        tail = ending.mpi_tail if ended_by == "mpirun" else ()
    return RunResult(
        run_id=ending.run_id,
        exit_code=code,
        ended_by=ended_by,
        seconds=ending.seconds,
        plan=state.plan,
        hosts=ending.hosts,
        first=first,
        tail=tail,
        same=same,
        victims=tuple(end for end in others if end not in same),
        cause=cause,
        hidden=state.hidden,
        aborted=tuple(sorted(e.rank for e in ends if e.aborted)),
        ends=ends,
        exchange=ending.exchange,
        slow=ending.slow,
        lost_host=told.lost,
    )
