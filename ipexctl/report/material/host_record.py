"""The records of a run on one host (remote/run/run_list.py), as values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from ipexctl.base.host_answer import read_record
from ipexctl.base.values import plain
from ipexctl.common.journal_records import (
    FactNoted,
    InputsNoted,
    PaceNoted,
    PartEnded,
)
from ipexctl.common.message import Document
from ipexctl.common.rank_paces import HostSample, RankPace
from ipexctl.common.run_answers import RecordAnswer
from ipexctl.common.run_events import Begun, Event, Moving, RankExited, RankStarted, Stalled
from ipexctl.common.run_inputs import HostInputs, RunInputs
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.output.metric_lines import Numbers, Point
from ipexctl.run.pace.rank_pace import HostPace, pace_of

SHORTEST = 4.0  # seconds of samples needed for a statement
_TAIL = 2000  # characters of a rank's last output: hosts send no more
_T = TypeVar("_T")


@dataclass(frozen=True)
class RankSample:
    """`sent`: bytes sent to other hosts so far, and the seconds that took, if they are known; the
    others are seconds so far, as in RankPace."""

    rank: int
    cpus: float
    sent: float = 0.0
    sending: float | None = None
    waited: float | None = None
    asleep: float | None = None
    disk: float | None = None
    process: float | None = None


@dataclass(frozen=True)
class RecordedSample:
    """`at`: seconds since the run began on the host."""

    at: float
    cpu: float | None = None  # share of the host's CPUs
    used: float | None = None  # bytes of memory
    net: float | None = None  # bytes per second
    ranks: tuple[RankSample, ...] = ()


@dataclass(frozen=True)
class Printed(Point):
    """What a line of a rank reports. `at`: seconds; None: unknown. `last`: the step printed before.
    `numbers`: the others with a name. `bar`: it is a progress bar's. `spelled`: the names of its
    losses in the output."""

    rank: int = 0
    at: float | None = None
    numbers: Numbers = ()
    bar: bool = False
    last: int | None = None
    spelled: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class HostRecord:
    """All times are seconds since the run began on this host; `began` is its clock at that time."""

    host: str
    began: float = 0.0
    plan: Document | None = None  # ShownPlan
    inputs: HostInputs | None = None
    of_run: RunInputs | None = None  # the first host has them
    whole: HostPace | None = None  # what its ranks had done at the end of the run
    starts: tuple[tuple[int, float], ...] = ()  # of ranks of all hosts
    ends: tuple[tuple[int, float], ...] = ()  # the same
    used: tuple[tuple[int, float], ...] = ()  # CPU seconds of ended ranks of all hosts
    places: tuple[tuple[int, tuple[int, ...]], ...] = ()  # where ranks actually ran
    stalls: tuple[tuple[float, float | None], ...] = ()
    tails: tuple[tuple[int, str], ...] = ()
    over: float | None = None
    seen: float = 0.0  # time of the last record or sample
    samples: tuple[RecordedSample, ...] = ()


def read_host_record(host: str, answer: RecordAnswer) -> HostRecord:
    """Return what a host's records mean."""
    records = answer.records
    own = [written.record for written in records]
    noted = next((record for record in own if isinstance(record, InputsNoted)), None)
    facts = [
        (written.at, written.record.fact.event)
        for written in records
        if isinstance(written.record, FactNoted)
    ]
    starts = [(at, event) for at, event in facts if isinstance(event, RankStarted)]
    exits = [(at, event) for at, event in facts if isinstance(event, RankExited)]
    ends_at = [written.at for written in records if isinstance(written.record, PartEnded)]
    samples = tuple(map(_read_sample, answer.samples))
    times = [*(written.at for written in records), *(sample.at for sample in samples)]
    paces = (record.whole for record in own if isinstance(record, PaceNoted))
    return HostRecord(
        host=host,
        began=answer.began,
        plan=next((event.plan for _, event in facts if isinstance(event, Begun)), None),
        inputs=read_record(HostInputs, noted.host) if noted else None,
        of_run=read_record(RunInputs, noted.run) if noted and noted.run else None,
        whole=next((pace_of(host, whole) for whole in paces), None),
        starts=tuple((event.rank, at) for at, event in starts),
        ends=tuple((event.rank, at) for at, event in exits),
        used=tuple((e.rank, e.ended.usage.cpu) for _, e in exits if e.ended.usage),
        places=tuple(
            (event.rank, event.where.cpus)
            for _, event in starts
            if event.where and event.where.cpus
        ),
        stalls=tuple(_read_stalls(facts)),
        tails=tuple((event.rank, plain_lines(event.tail)) for _, event in exits if event.tail),
        over=ends_at[-1] if ends_at else None,
        seen=max(times, default=0.0),
        samples=samples,
    )


def _read_sample(sample: HostSample) -> RecordedSample:
    ranks = tuple(
        RankSample(rank, cpus, sent, *seconds[:5])
        for rank, (cpus, sent, seconds) in sample.ranks.items()
    )
    return RecordedSample(sample.at, sample.cpu, sample.used, sample.net, ranks)


def plain_lines(text: Any) -> str:
    lines = text[-_TAIL:].splitlines() if isinstance(text, str) else []
    if len(lines) > 1 and len(text) >= _TAIL:  # the first line may have lost the name of a secret
        del lines[0]
    return "\n".join(indented_text(line, 400) for line in lines)


def indented_text(line: str, limit: int) -> str:
    """Return plain text with its leading spaces."""
    return " " * min(80, len(line) - len(line.lstrip(" "))) + plain(line, limit)


def group_by_rank(pairs: Iterable[tuple[int, _T]]) -> dict[int, list[_T]]:
    """Return the values of each rank, in the order of ranks."""
    groups: dict[int, list[_T]] = {}
    for rank, value in pairs:
        groups.setdefault(rank, []).append(value)
    return dict(sorted(groups.items()))


def host_pace(record: HostRecord, since: float, until: float) -> HostPace:
    """Return what the ranks of the host did between these times."""
    rows = [sample for sample in record.samples if since <= sample.at <= until]
    ranks = group_by_rank((rank.rank, (row.at, rank)) for row in rows for rank in row.ranks)
    cpu = [sample.cpu for sample in rows if sample.cpu is not None]
    paces = tuple(pace for rank, seen in ranks.items() if (pace := _rank_pace(rank, seen)))
    return HostPace(record.host, paces, sum(cpu) / len(cpu) if cpu else None)


def _rank_pace(rank: int, seen: list[tuple[float, RankSample]]) -> RankPace | None:
    (first, begin), (last, end) = seen[0], seen[-1]
    seconds = last - first
    if seconds < SHORTEST:
        return None
    cpus = sum(sample.cpus for _, sample in seen[1:]) / (len(seen) - 1)
    rates = dict[str, float | None]()
    for name in ("sending", "waited", "asleep", "disk", "process"):
        before, now = getattr(begin, name), getattr(end, name)
        known = before is not None and now is not None
        rates[name] = max(0.0, (now - before) / seconds) if known else None
    if rates["sending"] is not None:
        rates["sending"] = min(1.0, rates["sending"])
    return RankPace(rank, seconds, cpus, max(0.0, end.sent - begin.sent) / seconds, **rates)


def _read_stalls(facts: Iterable[tuple[float, Event]]) -> Iterable[tuple[float, Any]]:
    """Yield the (start, end) of each stall; the end is None if it lasts."""
    since: float | None = None
    for time, event in facts:
        if isinstance(event, Stalled) and since is None:
            since = max(0.0, time - event.seconds)
        elif isinstance(event, Moving) and since is not None:
            yield since, time
            since = None
    if since is not None:
        yield since, None
