"""Read what a host reports during a run: frames -> events. A host is not trusted: all is checked.

An event is read by the types of its fields (common/run_events.py), and its ranks have to be this
host's; anything else is an error of that host. Its journal has most events, too.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from ipexctl.base.host_answer import Answer, AnyText
from ipexctl.base.values import plain
from ipexctl.common import run_events
from ipexctl.common.supervisor_messages import PartReport
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.rank_states import RankEnd
from ipexctl.run.pace.rank_pace import HostPace, pace_of

LAST_WORDS = 2000  # characters of a rank's output that show whether it failed on its own


@dataclass(frozen=True)
class RankEnded:
    end: RankEnd
    tail: str = ""  # the end of its output


@dataclass(frozen=True)
class Output:
    """Bytes of a rank, or of a program of MPI (`rank` None)."""

    rank: int | None
    data: bytes
    program: str = ""


@dataclass(frozen=True)
class OutputEnd:
    """All that a rank wrote has been sent."""

    rank: int


@dataclass(frozen=True)
class RunDone:
    """The host's last message."""

    report: PartReport
    pace: HostPace  # what its ranks did in their last minute


Event = run_events.Event | RankEnded | Output | OutputEnd | RunDone


def read_host_event(
    host: str, header: Mapping[str, Any], body: bytes = b"", ranks: Container[int] | None = None
) -> Event:
    """Read the event in a frame of `host`, which has these ranks; None: any. Raise HostFailed."""
    answer = Answer(host, header)
    event = _parse_event(host, answer, body)
    for rank in _ranks_of(event):
        if ranks is not None and rank not in ranks:
            raise answer.invalid_reply(f"rank {rank}, which is not on this host")
    return event


def _parse_event(host: str, answer: Answer, body: bytes) -> Event:
    """Read an event with a rank's output, if it has some, or the host's last message."""
    if "error" in answer:
        what = Answer(host, answer["error"]).value("what", AnyText)
        return run_events.Broken(plain(what))
    if "done" in answer:
        report = Answer(host, answer["done"]).read(PartReport)
        return RunDone(report, pace_of(host, report.pace))
    return with_output(host, answer.value("event", run_events.Event), body)


def with_output(host: str, event: run_events.Event, body: bytes = b"") -> Event:
    """Return the event with the bytes that came with it, if they are output."""
    match event:
        case run_events.LogPart(str(key)):
            return Output(None, body, key)
        case run_events.LogPart(int(rank)):
            return OutputEnd(rank) if event.end else Output(rank, body)
        case run_events.RankExited():
            end = RankEnd(event.rank, host, **vars(event.ended))
            return RankEnded(end, event.tail[-LAST_WORDS:])
    return event


def _ranks_of(event: Event) -> tuple[int, ...]:
    """Return the ranks in an event that only their own host can report."""
    match event:
        case run_events.RankStarted(rank) | run_events.RankFrozen(rank) | OutputEnd(rank):
            return (rank,)
        case RankEnded(RankEnd(rank)) | Output(int(rank)):
            return (rank,)
        case run_events.Sample():
            return (*event.stopped, *event.ranks)
        case run_events.Exchanged(report) | RunDone(PartReport(traffic=report)):
            ranks = (process.rank for process in report.processes)
            return (*ranks, *(row[0] for row in report.moved))
    return ()


def journal_position(header: Mapping[str, Any]) -> int:
    """Return where the event ends in the host's journal, 0 if it is not from there."""
    position = header.get("at")
    return position if type(position) is int else 0
