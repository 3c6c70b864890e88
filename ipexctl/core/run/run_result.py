"""The result of a run, from all that is known of it when it is over."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ipexctl.core.known_failures.causes import Cause
from ipexctl.core.output.slow_rank import Slow
from ipexctl.core.run.outcome import (
    EXIT_NOT_KNOWN,
    EXIT_NOT_TOGETHER,
    HostEnd,
    RunResult,
    first_cause,
    own_gpu_check,
    same_endings,
    verdict,
)
from ipexctl.core.run.rank_exchange import Exchange, Verdict, sentence
from ipexctl.core.run.run_state import RunState


@dataclass(frozen=True)
class Ending:
    """What the ranks did not tell."""

    run_id: str
    seconds: float
    hosts: tuple[HostEnd, ...]
    stopped_by: str  # "": by nobody
    broken: str  # a host that could not do its part
    refused: str  # what mpirun did that is not in the plan
    mpi_tail: tuple[str, ...]  # the last words of mpirun and its daemons
    exchange: Exchange | None = None
    require_together: bool = False
    slow: Slow | None = None


def result_of(state: RunState, ending: Ending, known: tuple[Cause, ...]) -> RunResult:
    state.first = first_cause(state.first, state.ends.values(), state.tails, known, state.asked)
    ended_by, code, cause = verdict(
        state, stopped_by=ending.stopped_by, broken=ending.broken, refused=ending.refused
    )
    found, check = ending.exchange, ""
    if code == 0 and (found is None or (not found.steps and found.verdict is not Verdict.TOGETHER)):
        check = own_gpu_check(state.tails, known)
    if found and check:
        why = "the script ended at its own check for GPUs"
        found = replace(found, verdict=Verdict.UNKNOWN, groups=(), reason=why, too_small=True)
    if ending.require_together and code == 0 and found and found.verdict is not Verdict.TOGETHER:
        unknown = found.verdict is Verdict.UNKNOWN
        ended_by = "not-known" if unknown else "not-together"
        code = EXIT_NOT_KNOWN if unknown else EXIT_NOT_TOGETHER
        cause = sentence(found, state.plan.world_size)
    if ended_by == "timeout" and found and found.stuck:
        cause = f"{cause}: {found.stuck}"
    first = state.first if ended_by == "rank-failed" else None
    same = same_endings(first, state.ends.values(), state.tails) if first else ()
    if first:
        tail = tuple(state.tails.get(first.rank, ()))
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
        victims=tuple(v for v in state.victims if v not in same) if first else (),
        cause=cause,
        hidden=state.hidden,
        aborted=tuple(sorted(e.rank for e in state.ends.values() if e.aborted)),
        ends=tuple(state.ends.values()),
        exchange=found,
        gpu_check=check,
        slow=ending.slow,
    )
