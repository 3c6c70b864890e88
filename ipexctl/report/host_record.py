"""What a host has recorded of a run (remote/run/run_list.py), as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ipexctl.base.values import count_or_none, listed, plain
from ipexctl.facts.reader import number
from ipexctl.quick_dataclass import dataclass
from ipexctl.report.recorded_inputs import findings, text_pairs
from ipexctl.run.pace.rank_pace import HostPace, RankPace

SHORTEST = 4.0  # seconds of samples from which something can be said
_HUGE = 1e15
_TAIL = 2000  # characters of what a rank printed last: hosts send no more


@dataclass(frozen=True)
class RankSample:
    """`sent`: bytes to other hosts until then, and the seconds that took, if they are known."""

    rank: int
    cpus: float
    sent: float
    sending: float | None


@dataclass(frozen=True)
class Sample:
    at: float  # seconds since the run began on the host
    cpu: float | None  # share of the host's CPUs
    used: float | None  # bytes of memory
    net: float | None  # bytes per second
    ranks: tuple[RankSample, ...]


@dataclass(frozen=True)
class Printed:
    """What a line of a rank says of its training. `at`: seconds; None: not known. `last`: the step
    printed last, until then. `numbers`: the others with a name. `bar`: it is a progress bar's."""

    rank: int
    at: float | None
    step: int | None = None
    total: int | None = None
    loss: float | None = None
    eval_loss: float | None = None
    rate: float | None = None
    epoch: float | None = None
    numbers: tuple[tuple[str, float], ...] = ()
    bar: bool = False
    last: int | None = None


@dataclass(frozen=True)
class Variable:
    """`why` is empty for the user's own."""

    name: str
    value: str
    why: str


# (socket, NUMA node, its cores as the ids of their threads)
Socket = tuple[int | None, int | None, tuple[tuple[int, ...], ...]]


@dataclass(frozen=True)
class HostRecord:
    """All times are seconds since the run began on this host, but `began`: its clock then."""

    host: str
    began: float = 0.0
    plan: Any = None  # as it came: run/plan/shown_plan.py reads it
    inputs: Mapping[str, Any] | None = None  # as they came: recorded_inputs.py reads them
    whole: Any = None  # what its ranks did; as it came: run/pace/rank_pace.py reads it
    before: tuple[tuple[str, float], ...] = ()  # what came before, and the seconds it took
    sockets: tuple[Socket, ...] = ()
    variables: tuple[Variable, ...] = ()
    starts: tuple[tuple[int, float], ...] = ()  # of ranks of all hosts
    ends: tuple[tuple[int, float, bool], ...] = ()  # the same; whether it was well
    places: tuple[tuple[int, tuple[int, ...]], ...] = ()  # where ranks really ran
    environment: str = ""  # its key
    packages: tuple[tuple[str, str], ...] = ()  # of the environment; the first host has them
    findings: tuple[tuple[str, ...], ...] | None = None  # of the preflight; the first host has them
    stalls: tuple[tuple[float, float | None], ...] = ()
    tails: tuple[tuple[int, str], ...] = ()
    over: float | None = None
    seen: float = 0.0  # the last record or sample
    samples: tuple[Sample, ...] = ()


def read(host: str, raw: Mapping[str, Any]) -> HostRecord:
    """Odd values are left out: a host may say anything."""
    records = [r for r in listed(raw.get("records")) if isinstance(r, dict)]
    kept = next((r["inputs"] for r in records if isinstance(r.get("inputs"), dict)), None)
    inputs: dict[str, Any] = kept or {}
    facts = [(_time(r), r["fact"]) for r in records if isinstance(r.get("fact"), dict)]
    ranks = [(at, f, r) for at, f in facts if (r := count_or_none(f.get("rank"))) is not None]
    over = [_time(r) for r in records if "over" in r]
    samples = tuple(filter(None, map(_sample, listed(raw.get("samples")))))
    times = [*map(_time, records), *(one.at for one in samples)]
    return HostRecord(
        host=host,
        began=_number(raw.get("began")) or 0.0,
        plan=next((f["plan"] for _, f in facts if "plan" in f), None),
        inputs=kept,
        whole=next((r["whole"] for r in records if "whole" in r), None),
        before=_pairs(inputs.get("before")),
        sockets=tuple(filter(None, map(_socket, listed(inputs.get("sockets"))))),
        variables=_variables(inputs),
        starts=tuple((rank, at) for at, fact, rank in ranks if fact.get("started") is True),
        ends=tuple((rank, at, _well(f["ended"])) for at, f, rank in ranks if "ended" in f),
        places=tuple((rank, _cpus(f["where"])) for _, f, rank in ranks if "where" in f),
        environment=plain(inputs.get("environment"), 100),
        packages=text_pairs(inputs.get("packages")),
        findings=findings(inputs.get("findings")),
        stalls=tuple(_stalls(facts)),
        tails=tuple((rank, plain_lines(f["tail"])) for _, f, rank in ranks if "tail" in f),
        over=over[-1] if over else None,
        seen=max(times, default=0.0),
        samples=samples,
    )


def plain_lines(text: Any) -> str:
    lines = text[-_TAIL:].splitlines() if isinstance(text, str) else []
    if len(lines) > 1 and len(text) >= _TAIL:  # the name of a secret in the first may be cut off
        del lines[0]
    return "\n".join(indented(line, 400) for line in lines)


def indented(line: str, most: int) -> str:
    """Plain text, with the spaces before it."""
    return " " * min(80, len(line) - len(line.lstrip(" "))) + plain(line, most)


def pace(record: HostRecord, since: float, until: float) -> HostPace:
    """What the ranks of the host did between these times."""
    rows = [sample for sample in record.samples if since <= sample.at <= until]
    own: dict[int, list[tuple[float, RankSample]]] = {}
    for sample in rows:
        for one in sample.ranks:
            own.setdefault(one.rank, []).append((sample.at, one))
    cpu = [sample.cpu for sample in rows if sample.cpu is not None]
    found = tuple(made for rank, seen in sorted(own.items()) if (made := _pace(rank, seen)))
    return HostPace(record.host, found, sum(cpu) / len(cpu) if cpu else None)


def _pace(rank: int, seen: list[tuple[float, RankSample]]) -> RankPace | None:
    (first, a), (last, b) = seen[0], seen[-1]
    seconds = last - first
    if seconds < SHORTEST:
        return None
    cpus = sum(one.cpus for _, one in seen[1:]) / (len(seen) - 1)
    sending = None
    if a.sending is not None and b.sending is not None:
        sending = min(1.0, max(0.0, (b.sending - a.sending) / seconds))
    return RankPace(rank, seconds, cpus, max(0.0, b.sent - a.sent) / seconds, sending)


# --- reading -------------------------------------------------------------------------------------


def _number(value: Any) -> float | None:
    found = number(value)
    return found if found is not None and 0 <= found < _HUGE else None


def _time(record: Mapping[str, Any]) -> float:
    return _number(record.get("at")) or 0.0


def _pairs(raw: Any) -> tuple[tuple[str, float], ...]:
    rows = raw.items() if isinstance(raw, dict) else ()
    return tuple((plain(name, 40), s) for name, value in rows if (s := _number(value)) is not None)


def _socket(raw: Any) -> Socket | None:
    socket, node, cores = [*listed(raw), None, None, None][:3]
    found = (tuple(filter(_is_cpu, listed(core))) for core in listed(cores))
    made = tuple(core for core in found if core)
    return (count_or_none(socket), count_or_none(node), made) if made else None


def _is_cpu(value: Any) -> bool:
    return count_or_none(value) is not None


def _cpus(where: Any) -> tuple[int, ...]:
    found = where.get("cpus") if isinstance(where, dict) else ()
    return tuple(filter(_is_cpu, listed(found)))


def _variables(inputs: Mapping[str, Any]) -> tuple[Variable, ...]:
    given, why = (
        raw if isinstance(raw := inputs.get(n), dict) else {} for n in ("variables", "reasons")
    )
    return tuple(
        Variable(plain(name, 200), plain(value, 400), plain(why.get(name), 400))
        for name, value in given.items()
        if plain(name, 200)
    )


def _well(how: Any) -> bool:
    return isinstance(how, dict) and how.get("code") == 0 and not how.get("lost")


def _stalls(facts: Iterable[tuple[float, Mapping[str, Any]]]) -> Iterable[tuple[float, Any]]:
    since: float | None = None
    for at, fact in facts:
        if fact.get("event") == "stalled" and since is None:
            since = max(0.0, at - (_number(fact.get("seconds")) or 0.0))
        elif fact.get("event") == "moving" and since is not None:
            yield since, at
            since = None
    if since is not None:
        yield since, None


def _sample(raw: Any) -> Sample | None:
    if not isinstance(raw, dict) or (at := _number(raw.get("at"))) is None:
        return None
    rows = raw["ranks"].items() if isinstance(raw.get("ranks"), dict) else ()
    ranks = tuple(one for name, row in rows if (one := _rank_sample(name, row)))
    cpu, used, net = (_number(raw.get(key)) for key in ("cpu", "used", "net"))
    return Sample(at, cpu, used, net, ranks)


def _rank_sample(name: Any, raw: Any) -> RankSample | None:
    cpus, sent, sending = [*map(_number, listed(raw)), None, None, None][:3]
    if cpus is None or not (name.isascii() and name.isdigit() and len(name) < 8):
        return None
    return RankSample(int(name), cpus, sent or 0.0, sending)
