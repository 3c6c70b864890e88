"""What a host reports during a run: frames -> events. A host is not trusted; nothing passes unread.

An event is read by the types of its fields (base/host_answer.py), and its ranks have to be this
host's; anything else is an error of that host. Its journal has most of them, too.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import field
from typing import Any

from ipexctl.base.host_answer import Answer, AnyText, Line, Signed
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.listed_checkpoints import Copied
from ipexctl.run.outcome.rank_exchange import Report
from ipexctl.run.outcome.run_result import Load
from ipexctl.run.outcome.run_state import RankEnd, ended
from ipexctl.run.pace.rank_pace import HostPace, read_pace

LAST_WORDS = 2000  # characters of a rank's output that tell whether it failed by itself


@dataclass(frozen=True)
class Ready:
    """The host waits for its processes; the first one for the others, at this port."""

    port: int


@dataclass(frozen=True)
class Pong:
    """The host is alive."""


@dataclass(frozen=True)
class RankStarted:
    rank: int


@dataclass(frozen=True)
class RankEnded:
    end: RankEnd
    tail: str = ""  # the end of its output


@dataclass(frozen=True)
class RankRefused:
    """MPI started a rank that the plan has elsewhere."""

    why: Line = field(metadata={"key": "refused"})


@dataclass(frozen=True)
class Begun:
    """All hosts were ready, and the hub starts the ranks."""


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
class Sample:
    """How the host stands, every few seconds."""

    load: Load
    stopped: dict[int, float] = field(default_factory=dict)  # ranks that stand still: seconds
    ranks: dict[int, float] = field(default_factory=dict)  # CPUs that their processes kept busy


@dataclass(frozen=True)
class Traffic:
    """What the host's ranks have exchanged with others so far."""

    report: Report


@dataclass(frozen=True)
class Swept:
    """The host has ended the run's processes, and looked again."""

    survivors: int
    left: float = 0  # bytes of output that are still to be sent: may be many


@dataclass(frozen=True)
class HostLost:
    """The hub hears nothing more of it."""

    why: Line


@dataclass(frozen=True)
class RankFrozen:
    rank: int
    seconds: float


@dataclass(frozen=True)
class Looked:
    """What a host's ranks do, when none of the run made progress (run/hang/evidence.py)."""

    number: int
    ranks: Any = field(repr=False)


@dataclass(frozen=True)
class Stalled:
    """No rank has made progress for `seconds`, and none computes; look `number` shows them."""

    seconds: float
    number: int


@dataclass(frozen=True)
class Moving:
    """The ranks of a run that was stalled make progress again."""


@dataclass(frozen=True)
class TimedOut:
    """The run took longer than `seconds`, its --timeout."""

    seconds: float

    def __str__(self) -> str:
        return f"the run took longer than --timeout {self.seconds:g}"


@dataclass(frozen=True)
class ProgramEnded:
    """mpirun, a daemon of its or what started ranks, before the ranks did."""

    who: Line
    code: Signed | None  # None: not known
    killed: bool  # and ipexctl did not do it
    said: Line
    up: int  # ranks that had started
    alive: int

    def how(self, ranks: int) -> str:
        when = (
            f"while {self.alive} of {ranks} ranks were running"
            if self.up == ranks
            else f"when {self.up} of {ranks} ranks had started"
        )
        when = when if self.alive or self.up < ranks else "and took its ranks along"
        how = "was killed or gave up" if self.code is None else ended(self.code)
        return f"{self.who} {how} {when}"


@dataclass(frozen=True)
class EndAsked:
    """By Ctrl-C or `ipexctl stop`. `seconds`: the time the ranks have to end."""

    by: Line
    seconds: float


@dataclass(frozen=True)
class Abandoned:
    """The command that started the run has gone, and the run is to end with it."""

    why: Line


@dataclass(frozen=True)
class Noted:
    """Something odd that the hub met."""

    text: Line


@dataclass(frozen=True)
class Over:
    """The hub has told all hosts to stop. `well`: all ranks had ended, with code 0."""

    why: Line
    well: bool = False


@dataclass(frozen=True)
class Done:
    """The host's last word. `found`: survivors by host, as the hub was told. `killed`: how its
    supervisor ended; then `survivors` may be unknown.
    """

    survivors: int | None
    logs: Line
    found: dict[str, int] = field(default_factory=dict)
    traffic: Report = Report()  # what its ranks exchanged in the end
    killed: Line = ""
    pace: HostPace | None = None  # what its ranks did in their last minute


@dataclass(frozen=True)
class Broken:
    """The host could not do its part."""

    what: Line


Event = (
    Ready | Begun | Pong | RankStarted | RankEnded | RankRefused | RankFrozen | HostLost
    | ProgramEnded | TimedOut | EndAsked | Abandoned | Noted | Over | Output | OutputEnd | Sample
    | Traffic | Swept | Done | Broken | Looked | Stalled | Moving
)  # fmt: skip


_BY_NAME: Mapping[str, type[Event]] = {
    "ready": Ready, "watched": Pong, "pong": Pong, "go": Begun, "lost": HostLost,
    "frozen": RankFrozen, "look": Looked, "stalled": Stalled, "moving": Moving,
    "timeout": TimedOut, "program": ProgramEnded, "abandoned": Abandoned, "note": Noted,
    "over": Over, "broken": Broken, "swept": Swept, "asked": EndAsked,
}  # fmt: skip


def read(
    host: str, header: Mapping[str, Any], body: bytes = b"", ranks: Container[int] | None = None
) -> Event:
    """The event in a frame of `host`, which has these ranks; None: any. Raises HostFailed."""
    said = Answer(host, header)
    event = _event(host, said, body)
    for rank in _ranks_of(event):
        if ranks is not None and rank not in ranks:
            raise said.odd(f"rank {rank}, which is not on this host")
    return event


def _event(host: str, said: Answer, body: bytes) -> Event:
    if "event" not in said and "error" in said:
        return Answer(host, said["error"]).read(Broken)
    if "event" not in said:
        done = Answer(host, said["done"])
        return done.read(Done, pace=read_pace(host, done["pace"]) if "pace" in done else None)
    match name := said.text("event"):
        case "rank":
            return _rank(host, said)
        case "log" if isinstance(said["key"], str):
            return Output(None, body, said.text("key"))
        case "log":
            rank = said.whole("key")
            return OutputEnd(rank) if said.get("end") is True else Output(rank, body)
        case "load":
            return said.read(Sample, load=said.read(Load))
        case "traffic":
            return Traffic(said.read(Report))
        case "checkpoint":
            return Noted(str(said.read(Copied)))
    if name not in _BY_NAME:
        raise said.odd(f"an event named {name[:40]!r}")
    return said.read(_BY_NAME[name])


def _rank(host: str, said: Answer) -> Event:
    if "refused" in said:
        return said.read(RankRefused)
    rank = said.whole("rank")
    if "ended" not in said:
        return RankStarted(rank)
    tail = said.value("tail", AnyText) if "tail" in said else ""
    end = Answer(host, said["ended"]).read(RankEnd, rank=rank, host=host)
    return RankEnded(end, tail[-LAST_WORDS:])


def _ranks_of(event: Event) -> tuple[int, ...]:
    """The ranks that only their own host can tell of."""
    match event:
        case RankEnded(RankEnd(rank)) | RankStarted(rank) | RankFrozen(rank) | OutputEnd(rank):
            return (rank,)
        case Output(int(rank)):
            return (rank,)
        case Sample():
            return (*event.stopped, *event.ranks)
        case Traffic(report) | Done(traffic=report):
            return (*(one.rank for one in report.processes), *(row[0] for row in report.moved))
    return ()


def place(header: Mapping[str, Any]) -> int:
    """Where the event ends in the host's journal, 0 if it is not from there."""
    at = header.get("at")
    return at if type(at) is int else 0
