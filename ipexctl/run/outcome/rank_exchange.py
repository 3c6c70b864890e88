"""Judge whether the ranks of a run train together, by what they report (in_ranks/rank_groups.py).

A group of torch.distributed joins those of its ranks that ran a collective in it; a barrier, or
the creation of a group, proves nothing. Ranks that groups join work together. That they do not is
concluded only if each rank has reported completely; else the answer is "unknown", with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from enum import Enum
from itertools import pairwise

from ipexctl.base.host_answer import Line
from ipexctl.base.sizes import count, fold_numbers, short_size
from ipexctl.facts.host_facts import is_loopback
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.launch import LaunchPlan

MUCH = 64 << 10  # bytes from hosts of the run, to a rank without collectives: it has other ways
AGAIN = 5.0  # seconds until the next look after a warning
ENOUGH_STEPS = 10_000  # of a rank; further steps are not counted
SHORT = 5.0  # seconds: a shorter run without distributed code gets no line
LONG = 30.0  # seconds after which training code has begun to train, even if it prints no steps
WARN_AFTER = 15.0  # seconds after the second printed step
LOOPBACK_AFTER = 15.0  # seconds at a rendezvous that only rank 0's host can reach
TRAINED_ALONE = "trained-alone"  # in causes.toml
METRICS = (b"loss", b"Loss", b"LOSS", b"perplexity", b"reward")
_STEP = re.compile(
    r"(?<![a-z])(?:loss|perplexity|reward)\b[\"']?(?:\s*[:=]|\s+is|\s+of)?\s*(?:tensor)?[\"'(\s]*-?[\d.]",
    re.IGNORECASE,
)
_NOT_A_STEP = re.compile(r"eval|valid|test|zero.?shot|baseline", re.IGNORECASE)


class ExchangeVerdict(str, Enum):
    TOGETHER = "together"
    ALONE = "alone"  # each rank works alone
    APART = "apart"  # groups of ranks, without exchange between them
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Exchange:
    """What is known. `groups`: ranks that worked together, if that is not all of them."""

    verdict: ExchangeVerdict
    bytes: int = 0  # at least
    collectives: int = 0
    groups: tuple[tuple[int, ...], ...] = ()
    reason: str = ""  # why it is unknown
    quiet: bool = False  # nothing suggests that the ranks should have worked together
    stuck: str = ""  # why no group was formed, where that is known
    steps: int = 0  # printed, by the rank that printed most
    trained: bool = False  # the code or the output says that ranks train, and together
    completed: bool = True  # the ranks came to their end

    @property
    def alarming(self) -> bool:
        return self.trained and self.verdict in (ExchangeVerdict.ALONE, ExchangeVerdict.APART)


# rank, its own address, the other end's, bytes sent and received so far
Moved = tuple[int, str, str, int, int]


@dataclass(frozen=True)
class ExchangeGroup:
    """A group of torch.distributed, as one of its ranks sees it."""

    ranks: tuple[int, ...]  # empty: all
    backend: Line
    data: bool | None  # whether a collective with data ran; None: unknown
    count: int  # number of operations, including barriers


@dataclass(frozen=True)
class Process:
    """What a process of a rank reports. `main`: whether the run has started it."""

    rank: int
    main: bool
    age: float  # seconds since it said so
    seconds: float  # that it had run then
    ended: bool  # it says no more
    joined: bool  # it was at a rendezvous
    master: Line  # where
    place: int | None  # its rank in torch.distributed
    world: int | None
    torch: Line
    others: tuple[Line, ...]  # other libraries with which ranks exchange data
    groups: tuple[ExchangeGroup, ...]


@dataclass(frozen=True)
class ExchangeReport:
    """What a host reports about its ranks."""

    processes: tuple[Process, ...] = ()
    moved: tuple[Moved, ...] = ()
    silent: Line = ""  # why its ranks say nothing
    complete: bool = False  # all of them have ended


@dataclass
class ExchangeWatch:
    """Collects what hosts and ranks report. It has no clock."""

    plan: LaunchPlan
    processes: dict[int, tuple[Process, ...]] = field(default_factory=dict)  # by rank
    moved: dict[str, tuple[Moved, ...]] = field(default_factory=dict)  # by host
    steps: dict[int, int] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)  # host -> why its ranks report nothing
    complete: set[str] = field(default_factory=set)  # hosts whose reports are complete
    written: dict[int, float] = field(default_factory=dict)  # rank -> when it last wrote something
    _met: float | None = None  # when ranks began to wait at a loopback address
    _waited: bool = False  # whether that was reported
    _second: float | None = None  # when a rank had printed two steps
    _looked: float | None = None  # when it was last checked whether to warn
    _warned: bool = False
    _settled: bool = False  # whether there is nothing more to report

    def __post_init__(self) -> None:
        self._hosts = {place.rank: h.host for h in self.plan.hosts for place in h.ranks}

    def add(self, host: str, report: ExchangeReport, now: float = 0.0) -> None:
        self.silent[host] = report.silent or self.silent.get(host, "")
        if report.complete:
            self.complete.add(host)
        for rank in {one.rank for one in report.processes}:
            said = tuple(one for one in report.processes if one.rank == rank)
            self.processes[rank] = said
            self.written[rank] = now - min(one.age for one in said)
        self.moved[host] = report.moved or self.moved.get(host, ())
        if self._met is None and self._at_loopback():
            self._met = now

    def printed(self, rank: int, data: bytes, texts: Sequence[str], now: float) -> None:
        """Count lines with metrics of training. Most output has none and costs one search."""
        if self.steps.get(rank, 0) >= ENOUGH_STEPS or not any(word in data for word in METRICS):
            return
        found = sum(1 for text in texts if is_step(text))
        if found:
            self.steps[rank] = self.steps.get(rank, 0) + found
            if self._second is None and self.steps[rank] > 1:
                self._second = now

    def news(self, now: float) -> list[str]:
        return [text for text in (self.warning(now), self.waiting(now)) if text]

    def warning(self, now: float) -> str:
        """Return a warning some seconds after the second printed step, or later its withdrawal."""
        if self._second is None or now - self._second < WARN_AFTER or self._settled:
            return ""
        if self._looked is not None and now - self._looked < AGAIN:
            return ""
        if min(self.written.get(rank, 0.0) for rank in self._hosts) < self._second:
            return ""  # what they reported before they trained means nothing
        self._looked = now
        found = self.judge()
        if found is None or found.verdict is ExchangeVerdict.UNKNOWN:
            return ""
        if found.alarming:
            before, self._warned = self._warned, True
            more = f"   (ipexctl explain {TRAINED_ALONE})"
            return "" if before else f"WARNING: {so_far(found)}{more}"
        self._settled = True
        return "ranks have started to exchange data" if self._warned else ""

    def waiting(self, now: float) -> str:
        """Return once that ranks of other hosts cannot reach the rendezvous."""
        later = self._met is not None and now - self._met >= LOOPBACK_AFTER
        if not later or self._waited or self.written.get(0, 0.0) < (self._met or 0.0) + AGAIN:
            return ""
        self._waited = True
        return self._at_loopback()

    def _at_loopback(self) -> str:
        """Return the note if rank 0 waits at a loopback address for ranks of other hosts."""
        waits = (one for one in self.processes.get(0, ()) if one.joined and not one.groups)
        place = next((one.master for one in waits if _is_loopback(one.master)), "")
        here = self._hosts[0]
        missing = [rank for rank in self._hosts if self._hosts[rank] != here]
        if not place or not missing or any(self.processes_in_groups()):
            return ""
        return (
            f"rank 0 on {here} opened the rendezvous at {place}, a loopback address that only "
            f"{here} itself reaches; {_rank_text(missing)} cannot join: the script sets "
            "MASTER_ADDR or init_method"
        )

    def processes_in_groups(self) -> Iterator[Process]:
        """Yield processes whose rank and world size in torch.distributed are those of the run."""
        for rank, said in self.processes.items():
            for one in said:
                if (one.place, one.world) == (rank, self.plan.world_size):
                    yield one

    @property
    def is_complete(self) -> bool:
        """Return whether each host has reported everything that its ranks exchanged."""
        return all(host.host in self.complete for host in self.plan.hosts)

    def end(self, *, completed: bool) -> Exchange | None:
        found = self.judge(completed=completed, over=True)
        return found and replace(found, stuck=self._at_loopback())

    def judge(self, *, completed: bool = False, over: bool = False) -> Exchange | None:
        """Judge the exchange; None for one rank. `completed`: the script came to its end."""
        world = self.plan.world_size
        if world == 1:
            return None
        steps = max(self.steps.values(), default=0)
        meant = self.plan.joins or any(p.joined for said in self.processes.values() for p in said)
        least = min((self._seconds(rank) for rank in self._hosts), default=0.0)
        lasted, received = completed and least >= LONG, self._received()
        seen = Exchange(
            ExchangeVerdict.UNKNOWN,
            sum(received.values()),
            max((_count_collectives(one) for one in self.processes_in_groups()), default=0),
            quiet=not meant and not steps and (least < SHORT or not completed),
            steps=steps,
            trained=meant and self.plan.trains and (steps > 0 or lasted),
            completed=completed,
        )
        proven = self._proven()
        parts = {group: ranks for group, ranks in proven.items() if len(ranks) < len(group)}
        whole = proven.keys() - parts.keys()
        groups = _connected_groups(world, (pair for group in whole for pair in pairwise(group)))
        if len(groups) == 1:
            return replace(seen, verdict=ExchangeVerdict.TOGETHER)
        if parts:
            group, ranks = min(parts.items())
            why = f"of {_rank_text(group)}, only {_rank_text(ranks)} ran a collective that is known"
            return replace(seen, reason=why, quiet=not (meant and completed))
        doubts = (self._doubt(rank, received[rank], over) for rank in self._hosts)
        if why := next(filter(None, doubts), ""):
            return replace(seen, reason=why, quiet=not (meant and completed))
        verdict = ExchangeVerdict.ALONE if len(groups) == world else ExchangeVerdict.APART
        return replace(seen, verdict=verdict, groups=groups)

    def _seconds(self, rank: int) -> float:
        return max((one.seconds for one in self.processes.get(rank, ())), default=0.0)

    def _proven(self) -> dict[tuple[int, ...], set[int]]:
        """Return {members of a group: those that report that they ran collectives in it}."""
        proven: dict[tuple[int, ...], set[int]] = {}
        for one in self.processes_in_groups():
            for group in one.groups:
                if group.data:
                    members = group.ranks or tuple(sorted(self._hosts))
                    proven.setdefault(members, set()).add(one.rank)
        return proven

    def _doubt(self, rank: int, received: int, over: bool) -> str:
        """Return why a rank may have exchanged more than is known, or "". `received`: bytes."""
        host, world, said = self._hosts[rank], self.plan.world_size, self.processes.get(rank, ())
        if why := self.silent.get(host):
            return why
        if over and host not in self.complete:
            return f"{host} did not report what its ranks did"
        if not any(one.main for one in said):
            return f"rank {rank} did not import torch"
        groups = [group for one in said if one.world != 1 for group in one.groups]
        for one in said:
            if over and not one.ended:
                return f"rank {rank} was ended before it could say what it did"
            if one.others:
                return f"rank {rank} uses {one.others[0]}"
            if (one.place, one.world) not in ((None, None), (0, 1), (rank, world)):
                what = f"rank {one.place} of {one.world} in torch.distributed"
                return f"rank {rank} of {world} is {what}"
        if unclear := [group for group in groups if group.data is None and len(group.ranks) != 1]:
            what = f"what rank {rank} did with {_rank_text(unclear[0].ranks or self._hosts)}"
            return f"{unclear[0].backend} of torch {said[0].torch} does not record {what}"
        if received > MUCH and not any(group.data for group in groups):
            return f"rank {rank} exchanged {short_size(received)} outside of torch.distributed"
        return ""

    def _received(self) -> dict[int, int]:
        """Return the bytes that each rank received from addresses of the run's ranks."""
        rows = [row for moved in self.moved.values() for row in moved]
        own = {here for _, here, _, _, _ in rows}
        single = {host.ranks[0].rank for host in self.plan.hosts if len(host.ranks) == 1}
        found = dict.fromkeys(self._hosts, 0)
        for rank, here, there, _, received in rows:
            if there in own and not (here == there and rank in single):
                found[rank] += received
        return found


def _count_collectives(one: Process) -> int:
    return sum(group.count for group in one.groups if group.data)


def _is_loopback(place: str) -> bool:
    address = place.rpartition(":")[0].strip("[]")
    return address == "localhost" or is_loopback(address)


def is_step(text: str) -> bool:
    """Return whether a line of training has a metric in it; evaluation does not count."""
    return bool(_STEP.search(text[:2000])) and not _NOT_A_STEP.search(text[:2000])


def so_far(found: Exchange) -> str:
    """Return the warning, while the run is active."""
    if found.verdict is ExchangeVerdict.ALONE:
        return f"after {found.steps} printed steps ranks have exchanged nothing so far"
    return f"so far {_apart_sentence(found)}"


def _apart_sentence(found: Exchange) -> str:
    groups = [f"{fold_numbers(group)}" for group in found.groups[:4]]
    more = f" and {len(found.groups) - 4} more" if len(found.groups) > 4 else ""
    return (
        f"ranks exchanged {_amount_text(found)}, but only within {len(found.groups)} groups: "
        f"ranks {' | '.join(groups)}{more}"
    )


def _amount_text(found: Exchange) -> str:
    return f"at least {short_size(found.bytes)}" if found.bytes else "data"


def describe_exchange(found: Exchange, world: int) -> str:
    """Return the line of the summary."""
    if found.verdict is ExchangeVerdict.UNKNOWN:
        return f"it is unknown what ranks exchanged: {found.reason}"
    if found.verdict is ExchangeVerdict.APART:
        return _apart_sentence(found)
    if found.verdict is ExchangeVerdict.ALONE:
        if not (found.trained or found.completed):
            return "ranks exchanged nothing"
        verb = "trained" if found.trained and found.steps else "ran"
        return f"ranks exchanged nothing: each of the {world} {verb} alone"
    ran = f" in {count(found.collectives, 'collective')}" if found.collectives else ""
    fewer = f", fewer than {found.steps} printed steps" if found.collectives < found.steps else ""
    return f"ranks exchanged {_amount_text(found)}{ran}{fewer if ran else ''}"


def _rank_text(some: Iterable[int]) -> str:
    ranks = sorted(some)
    return f"rank{'s' * (len(ranks) > 1)} {fold_numbers(ranks)}"


def _connected_groups(world: int, pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    parent = list(range(world))

    def root(rank: int) -> int:
        while parent[rank] != rank:
            parent[rank] = parent[parent[rank]]
            rank = parent[rank]
        return rank

    for a, b in pairs:
        parent[root(a)] = root(b)
    found: dict[int, list[int]] = {}
    for rank in range(world):
        found.setdefault(root(rank), []).append(rank)
    return tuple(tuple(group) for group in found.values())
