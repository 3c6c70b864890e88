"""What a host reports during a run: frames -> events. A host is not trusted; nothing passes unread.

Everything is checked here, once: a number that is not one, a rank that is not this host's. Most
events are read by the types of their fields; a field with a default may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, field, fields
from typing import Any

from ipexctl.base.values import count_or_none, listed, plain, texts
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome import listed_checkpoints
from ipexctl.run.outcome.rank_exchange import Key, Report
from ipexctl.run.outcome.run_result import Load
from ipexctl.run.outcome.run_state import RankEnd, Usage, ended
from ipexctl.run.pace.rank_pace import HostPace, read_pace

LARGEST_OUTPUT = 256 * 1024
MOST_LINKS = 1 << 16  # in one report of a host
LAST_WORDS = 2000  # characters of a rank's output that tell whether it failed by itself
_HINTS = frozenset({"oom", "oom-rank", "oom-limit", "disk-full"})


class BadEvent(Exception):
    """Not a word of our protocol."""


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

    why: str


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
    stopped: tuple[tuple[int, float], ...] = ()  # ranks all of whose threads stand still: seconds
    busy: tuple[tuple[int, float], ...] = ()  # ranks: CPUs that their processes kept busy


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

    why: str


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

    who: str
    code: int | None  # None: not known
    killed: bool  # and ipexctl did not do it
    said: str
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

    by: str
    seconds: float


@dataclass(frozen=True)
class Abandoned:
    """The command that started the run has gone, and the run is to end with it."""

    why: str


@dataclass(frozen=True)
class Noted:
    """Something odd that the hub met."""

    text: str


@dataclass(frozen=True)
class Over:
    """The hub has told all hosts to stop. `well`: all ranks had ended, with code 0."""

    why: str
    well: bool = False


@dataclass(frozen=True)
class Done:
    """The host's last word. `found`: survivors by host, as the hub was told. `killed`: how its
    supervisor ended; then `survivors` may be unknown.
    """

    survivors: int | None
    logs: str
    found: tuple[tuple[str, int], ...] = ()
    report: Report = Report()  # of what its ranks exchanged in the end
    killed: str = ""
    pace: HostPace | None = None  # what its ranks did in their last minute


@dataclass(frozen=True)
class Broken:
    """The host could not do its part."""

    what: str


Event = (
    Ready | Begun | Pong | RankStarted | RankEnded | RankRefused | RankFrozen | HostLost
    | ProgramEnded | TimedOut | EndAsked | Abandoned | Noted | Over | Output | OutputEnd | Sample
    | Traffic | Swept | Done | Broken | Looked | Stalled | Moving
)  # fmt: skip


_BY_FIELDS: Mapping[str, type[Event]] = {
    "ready": Ready, "watched": Pong, "pong": Pong, "go": Begun, "lost": HostLost,
    "frozen": RankFrozen, "look": Looked, "stalled": Stalled, "moving": Moving,
    "timeout": TimedOut, "program": ProgramEnded, "abandoned": Abandoned, "note": Noted,
    "over": Over, "broken": Broken, "swept": Swept, "asked": EndAsked,
}  # fmt: skip


def read(host: str, ranks: frozenset[int], header: Mapping[str, Any], body: bytes) -> Event:
    """The event in a frame of `host`, which has these ranks. Raises BadEvent."""
    if "error" in header and "event" not in header:
        return _by_fields(Broken, _mapping(header, "error"))
    if "done" in header:
        return _done(host, ranks, _mapping(header, "done"))
    match name := _text(header, "event"):
        case "rank":
            return _rank(host, ranks, header)
        case "log":
            return _log(ranks, header, body)
        case "load":
            return _sample(ranks, header)
        case "traffic":
            return Traffic(_report(ranks, header))
        case "checkpoint":
            size, seconds = (_amount({key: 0, **header}, key) for key in ("bytes", "seconds"))
            return Noted(listed_checkpoints.told(header, int(size), seconds))
    if name not in _BY_FIELDS:
        raise BadEvent(f"an event named {name[:40]!r}")
    found = _by_fields(_BY_FIELDS[name], header)
    if isinstance(found, RankFrozen):
        _own_rank(ranks, header, "rank")
    return found


def _by_fields(kind: type[Event], header: Mapping[str, Any]) -> Event:
    given = (f for f in fields(kind) if f.name in header or f.default is MISSING)
    return kind(**{f.name: _BY_TYPE[str(f.type)](header, f.name) for f in given})


def _done(host: str, ranks: frozenset[int], done: Mapping[str, Any]) -> Done:
    found = done.get("found")
    said = found.items() if isinstance(found, dict) else ()
    kept = tuple((str(k), v) for k, v in said if type(v) is int and v >= 0)
    killed = plain(done.get("killed"), 400)
    unknown = killed and done.get("survivors") is None
    left = None if unknown else _whole(done, "survivors")
    last = done.get("traffic")
    report = _report(ranks, last, last=True) if isinstance(last, dict) else Report()
    pace = read_pace(host, done["pace"]) if "pace" in done else None
    return Done(left, _text(done, "logs"), kept, report, killed, pace)


def place(header: Mapping[str, Any]) -> int:
    """Where the event ends in the host's journal, 0 if it is not from there."""
    return count_or_none(header.get("at")) or 0


def said_once(event: Event) -> str:
    """What a host has only once to say, "" for all else: its repetitions would cost memory."""
    match event:
        case RankStarted(rank):
            return f"rank {rank} started"
        case RankEnded(end):
            return f"rank {end.rank} ended"
        case OutputEnd(rank):
            return f"the output of rank {rank} ended"
    return ""


def _rank(host: str, ranks: frozenset[int], header: Mapping[str, Any]) -> Event:
    if "refused" in header:
        return RankRefused(_text(header, "refused"))
    rank = _own_rank(ranks, header, "rank")
    if "ended" not in header:
        return RankStarted(rank)
    tail = header.get("tail")
    end = rank_end(host, rank, _mapping(header, "ended"))
    return RankEnded(end, tail[-LAST_WORDS:] if isinstance(tail, str) else "")


def rank_end(host: str, rank: int, ended: Mapping[str, Any]) -> RankEnd:
    """Raises BadEvent."""
    lost = ended.get("lost") is True
    code, signal = (None if ended.get(k) is None else _whole(ended, k) for k in ("code", "signal"))
    if [code is not None, signal is not None, lost].count(True) != 1:
        raise BadEvent(f"a rank with no end or two: {dict(ended)}")
    hints = tuple(h for h in texts(ended.get("hints")) if h in _HINTS)
    return RankEnd(
        rank,
        host,
        code,
        signal,
        lost=lost,
        hints=hints,
        usage=_usage(ended),
        at_exit=None if ended.get("at_exit") is None else _whole(ended, "at_exit"),
    )


def _usage(ended: Mapping[str, Any]) -> Usage | None:
    if ended.get("usage") is None:
        return None
    usage = _mapping(ended, "usage")
    seconds, cpu, memory = (_amount(usage, k) for k in ("seconds", "cpu", "memory"))
    return Usage(seconds, cpu, int(memory))


def _sample(ranks: frozenset[int], header: Mapping[str, Any]) -> Sample:
    cpu, used, total, net = (
        None if header.get(k) is None else _amount(header, k)
        for k in ("cpu", "used", "total", "net")
    )
    load = Load(
        None if cpu is None else min(cpu, 1.0),
        None if used is None else int(used),
        None if total is None else int(total),
        net,
    )
    return Sample(load, _by_rank(ranks, header, "stopped"), _by_rank(ranks, header, "ranks"))


def _by_rank(
    ranks: frozenset[int], header: Mapping[str, Any], name: str
) -> tuple[tuple[int, float], ...]:
    """An amount for some of the ranks."""
    known = {str(rank): rank for rank in ranks}
    said = header.get(name, {})
    if not isinstance(said, dict) or not said.keys() <= known.keys():
        raise BadEvent(f"{name!r} is not of ranks on this host")
    return tuple((known[key], _amount(said, key)) for key in said)


def _report(ranks: frozenset[int], header: Mapping[str, Any], *, last: bool = False) -> Report:
    links, strays = listed(header.get("links")), listed(header.get("strays"))
    groups = [listed(group) for group in listed(header.get("sharing"))]
    if (
        len(links) + len(strays) > MOST_LINKS
        or len(groups) > MOST_LINKS
        or not all(type(rank) is int and rank in ranks for group in groups for rank in group)
    ):
        raise BadEvent("connections of ranks that are not on this host, or too many")
    return Report(
        links=tuple(_link(ranks, link) for link in links),
        sharing=tuple(map(tuple, groups)),
        trouble=plain(header.get("trouble"), 200),
        strays=tuple(_link(frozenset({0}), [0, *listed(s)])[1:] for s in strays),
        missed=plain(header.get("missed"), 200),
        watched=_amount(header, "watched") if last else None,
    )


def _link(ranks: frozenset[int], raw: Any) -> tuple[int, Key, int, int]:
    if not isinstance(raw, list) or len(raw) != 7:
        raise BadEvent("a connection without its ends")
    rank, here, port, there, other, sent, received = raw
    numbers = (rank, port, other, sent, received)
    if not all(type(n) is int and 0 <= n < 1 << 63 for n in numbers) or rank not in ranks:
        raise BadEvent("a connection with odd numbers")
    if not all(isinstance(text, str) and len(text) < 64 for text in (here, there)):
        raise BadEvent("a connection with odd addresses")
    return rank, (here, port, there, other), sent, received


def _log(ranks: frozenset[int], header: Mapping[str, Any], body: bytes) -> Event:
    if len(body) > LARGEST_OUTPUT:
        raise BadEvent(f"{len(body)} bytes of output at once")
    if isinstance(header.get("key"), str):
        return Output(None, body, header["key"][:64])
    rank = _own_rank(ranks, header, "key")
    return OutputEnd(rank) if header.get("end") is True else Output(rank, body)


def _mapping(header: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = header.get(name)
    if not isinstance(value, dict):
        raise BadEvent(f"{name} without content")
    return value


def _text(header: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = header.get(name, default)
    if not isinstance(value, str):
        raise BadEvent(f"{name!r} is missing or not a string")
    return value


def _whole(header: Mapping[str, Any], name: str) -> int:
    value = header.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 1 << 31:
        raise BadEvent(f"{name!r} is missing or not a number")
    return value


def _amount(header: Mapping[str, Any], name: str) -> float:
    """A number of bytes, seconds or the like. NaN is none of them."""
    value = header.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1 << 60:
        raise BadEvent(f"{name!r} is missing or not a number")
    return float(value)


def _own_rank(ranks: frozenset[int], header: Mapping[str, Any], name: str) -> int:
    rank = _whole(header, name)
    if rank not in ranks:
        raise BadEvent(f"rank {rank}, which is not on this host")
    return rank


_BY_TYPE: Mapping[str, Callable[[Mapping[str, Any], str], Any]] = {
    "int": _whole,
    "int | None": lambda header, name: None if header.get(name) is None else _whole(header, name),
    "float": _amount,
    "str": lambda header, name: plain(header.get(name), 400),
    "bool": lambda header, name: header.get(name) is True,
    "Any": lambda header, name: header.get(name),
}
