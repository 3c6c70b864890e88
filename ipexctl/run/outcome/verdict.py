"""Decide how a run ended, from what its hub recorded.

The hub ends a run at its first decisive fact (remote/hub/judge.py) and records every one of them in
the journals of all hosts. `run` and `attach` get them as they happen; `ps`, `wait` and `stop` read
them afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from ipexctl.base.host_outcome import without_host
from ipexctl.base.values import by, count_or_none, plain
from ipexctl.common import run_events
from ipexctl.common.described_ends import describe_program_end
from ipexctl.errors import EXIT_INTERRUPTED, EXIT_OK
from ipexctl.explain.causes import causes
from ipexctl.explain.causes.causes import Cause
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome import event_reader, rank_exchange
from ipexctl.run.outcome.event_reader import Event
from ipexctl.run.outcome.first_cause import (
    SIGABRT,
    bare_lines,
    describe_lost_worker,
    first_cause,
    own_gpu_check,
    same_endings,
)
from ipexctl.run.outcome.rank_states import RankEnd, RankStates
from ipexctl.run.outcome.run_result import (
    EXIT_HOST_FAILED,
    EXIT_LOST,
    EXIT_MPIRUN,
    EXIT_NOT_KNOWN,
    EXIT_NOT_TOGETHER,
    EXIT_TIMEOUT,
    HostEnd,
    RunResult,
    Stall,
    exception_in,
    from_traceback,
)
from ipexctl.run.output.slow_rank import Slow
from ipexctl.run.pace.slow_steps import SlowSteps

RANK_FAILED = "rank-failed"
HOST_LOST = "host-lost"
INTERRUPTED = "interrupted"
UNKNOWN = "unknown"  # it has ended, and no host knows how


@dataclass(frozen=True)
class HubRecord:
    """A record of the hub, about a host or the run."""

    host: str
    event: Event

    @property
    def is_decisive(self) -> bool:
        return _verdict_of_fact(self, 0) is not None


@dataclass(frozen=True)
class Verdict:
    exit_code: int = field(metadata=by(count_or_none, needed=True))
    ended_by: str
    cause: str
    first: RankEnd | None = None  # the rank that is the cause
    last: str = ""  # and its last line
    lost: str = ""  # the host that is the cause


def decide_verdict(facts: Sequence[HubRecord], ranks: int, known: causes.Known) -> Verdict | None:
    """Decide how a run ended; None: it has not. `facts`: in recorded order; `ranks`: how many."""
    verdicts = ((fact, _verdict_of_fact(fact, ranks)) for fact in facts)
    fact, verdict = next(((f, v) for f, v in verdicts if v), (None, None))
    if fact is None or verdict is None:
        return None
    vanished = verdict.first is not None and verdict.first.lost
    if vanished or isinstance(fact.event, run_events.ProgramEnded):
        programs = (f for f in facts if isinstance(f.event, run_events.ProgramEnded))
        killed = next((f for f in programs if f.event.killed), None)  # type: ignore[union-attr]
        if killed or not vanished:  # this explains why others gave up, and missing wrappers
            return _verdict_of_fact(killed or fact, ranks)
    return _of_ranks(facts, verdict.first, known()) if verdict.first else verdict


@dataclass
class EndReports:
    """What this command has received about the end of a run."""

    ranks: int
    facts: list[HubRecord] = field(default_factory=list)  # of the hub, by which it ends
    seen: list[HubRecord] = field(default_factory=list)  # by the viewer, if no host can say
    complete: bool = False  # whether the hub has sent its last record

    def verdict(
        self,
        journal_verdict: Callable[[], Verdict | None],
        known: causes.Known,
        *,
        all_of_it: bool,
    ) -> Verdict:
        """Return the hub's verdict; if there is none, `all_of_it` was not received, or a lost host
        may know more, that of the journals; if no host can be asked, the one of this command."""
        by_hub = decide_verdict(self.facts, self.ranks, known) if self.complete else None
        by_journals = journal_verdict() if by_hub is None or by_hub.lost or not all_of_it else None
        if by_journals and all_of_it and self.seen and by_journals.ended_by == UNKNOWN:
            by_journals = None  # the viewer knows more
        return (
            by_journals
            or by_hub
            or decide_verdict([*self.facts, *self.seen], self.ranks, known)
            or Verdict(EXIT_MPIRUN, "mpirun", "the run ended before its ranks did")
        )


def _of_ranks(facts: Sequence[HubRecord], end: RankEnd, known: tuple[Cause, ...]) -> Verdict:
    ends: list[RankEnd] = []
    tails: dict[int, list[str]] = {}
    late: set[int] = set()
    ending = False
    for fact in facts:
        match fact.event:
            case run_events.EndAsked() | run_events.TimedOut():
                ending = True
            case event_reader.RankEnded(other, tail):
                ends.append(other)
                tails[other.rank] = tail.splitlines()
                late |= {other.rank} if ending else set()
    first = first_cause(end, ends, tails, known, late) or end
    lines = bare_lines(tails.get(first.rank, ()))
    last = [line for line in from_traceback(lines) if line.strip()][-1:]
    verdict = replace(of_rank(first), last="".join(last))
    if worker := describe_lost_worker(lines):
        cause = f"a DataLoader worker of rank {first.rank} on {first.host} {worker}"
        return replace(verdict, cause=cause)
    exception = exception_in(lines) if first.signal == SIGABRT else ""
    why = f"rank {first.rank} on {first.host} raised {exception[:200]}"
    return replace(verdict, cause=f"{why}; then Python aborted (SIGABRT)") if exception else verdict


def of_rank(end: RankEnd) -> Verdict:
    return Verdict(end.exit_code, RANK_FAILED, f"rank {end.rank} on {end.host} {end}", end)


def _verdict_of_fact(fact: HubRecord, ranks: int) -> Verdict | None:
    """Return the verdict for this fact alone; None if it does not end a run."""
    host = fact.host
    match fact.event:
        case event_reader.RankEnded(end) if not end.ok:
            return of_rank(end)
        case run_events.HostLost(why):
            cause = f"{host} was lost: {without_host(host, why)}"
            return Verdict(EXIT_LOST, HOST_LOST, cause, lost=host)
        case run_events.RankFrozen(rank, seconds):
            stopped = f"has been stopped for {seconds:.0f} s (all its threads are in state T)"
            return Verdict(EXIT_LOST, "rank-frozen", f"rank {rank} on {host} {stopped}")
        case run_events.TimedOut(seconds):
            return Verdict(EXIT_TIMEOUT, "timeout", took_too_long(seconds))
        case run_events.EndAsked(actor):
            return Verdict(EXIT_INTERRUPTED, INTERRUPTED, f"stopped by {actor}")
        case run_events.Abandoned(why):
            cause = f"{host}: {why}, and the run ends with its command"
            return Verdict(EXIT_LOST, "controller-lost", cause)
        case run_events.ProgramEnded():
            return Verdict(EXIT_MPIRUN, "mpirun", program_ended(fact.event, ranks))
        case run_events.RankRefused(why):
            return Verdict(EXIT_MPIRUN, "mpirun", f"{host}: {why}")
        case run_events.Broken(problem):
            return Verdict(EXIT_HOST_FAILED, "host-failed", f"{host}: {problem}")
        case run_events.RanksSucceeded() | run_events.Over(well=True):
            return Verdict(EXIT_OK, "ranks", "")
        case run_events.Over():
            return Verdict(EXIT_MPIRUN, "mpirun", "the run ended before its ranks did")
    return None


def took_too_long(seconds: float) -> str:
    return f"the run took longer than --timeout {seconds:g}"


def program_ended(program: run_events.ProgramEnded, ranks: int) -> str:
    when = (
        f"while {program.alive} of {ranks} ranks were running"
        if program.up == ranks
        else f"when {program.up} of {ranks} ranks had started"
    )
    when = when if program.alive or program.up < ranks else "and took its ranks along"
    return f"{program.who} {describe_program_end(program.code)} {when}"


def read_all(facts: Sequence[run_events.Fact], host: str = "") -> list[HubRecord]:
    """Read facts of a journal. `host`: for facts that name none."""
    return [read_fact(fact, host) for fact in facts]


def read_fact(fact: run_events.Fact, host: str = "") -> HubRecord:
    host = plain(fact.host, 255) or host
    return HubRecord(host, event_reader.with_output(host, fact.event))


# --- the result, for the command that watched the run --------------------------------------------


@dataclass(frozen=True)
class Ending:
    """What is known about the end of a run beyond the ranks' reports."""

    run_id: str
    seconds: float
    hosts: tuple[HostEnd, ...]
    verdict: Verdict
    mpi_tail: tuple[str, ...]  # the last words of mpirun and its daemons
    stall: Stall | None = None
    exchange: rank_exchange.Exchange | None = None
    require_together: bool = False
    slow: Slow | None = None
    steps: SlowSteps | None = None


def result_of(state: RankStates, ending: Ending, known: causes.Known) -> RunResult:
    exchange, verdict = ending.exchange, ending.verdict
    ended_by, code, cause = verdict.ended_by, verdict.exit_code, verdict.cause
    together = exchange is None or exchange.verdict is rank_exchange.ExchangeVerdict.TOGETHER
    did_nothing = code == 0 and (exchange is None or not (exchange.steps or together))
    gpu_check = own_gpu_check(state.tails, known) if did_nothing else ""
    if exchange and gpu_check:
        why = "the script ended at its own check for GPUs"
        not_known = rank_exchange.ExchangeVerdict.UNKNOWN
        exchange = replace(exchange, verdict=not_known, groups=(), reason=why, quiet=True)
    if exchange and ending.require_together and code == 0 and not together:
        unknown = exchange.verdict is rank_exchange.ExchangeVerdict.UNKNOWN
        ended_by = "not-known" if unknown else "not-together"
        code = EXIT_NOT_KNOWN if unknown else EXIT_NOT_TOGETHER
        cause = rank_exchange.describe_exchange(exchange, state.plan.world_size)
    if ended_by == "timeout" and exchange and exchange.stuck:
        cause = f"{cause}: {exchange.stuck}"
    first = verdict.first if ended_by == RANK_FAILED else None
    ends = tuple(state.ends.values())
    same = same_endings(first, ends, state.tails) if first else ()
    failed = [end for end in ends if first and not end.ok and end.rank != first.rank]
    if first:
        tail = tuple(state.tails.get(first.rank) or filter(None, [verdict.last]))
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
        tails=tuple(map(tuple, state.tails.values())),
        same=same,
        victims=tuple(end for end in failed if end not in same),
        cause=cause,
        stall=None if code == 0 else ending.stall,
        hidden=state.hidden,
        aborted=tuple(sorted(e.rank for e in ends if e.at_exit)),
        ends=ends,
        exchange=exchange,
        gpu_check=gpu_check,
        slow=ending.slow,
        steps=ending.steps,
        warnings=tuple(state.warnings),
        lost_host=verdict.lost,
    )
