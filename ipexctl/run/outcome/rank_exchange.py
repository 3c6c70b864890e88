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

from ipexctl.base.sizes import count, fold_numbers, rank_text, short_size
from ipexctl.common.exchange_report import ExchangeReport, RankProcess
from ipexctl.facts.host_facts import is_loopback
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.launch import LaunchPlan

MUCH = 64 << 10  # bytes that a rank without collectives receives only if it uses another library
AGAIN = 5.0  # seconds until the next look after a warning
ENOUGH_STEPS = 10_000  # of a rank; further steps are not counted
SHORT = 5.0  # seconds: a shorter run without distributed code gets no line
LONG = 30.0  # seconds after which training code has begun to train, even if it prints no steps
WARN_AFTER = 15.0  # seconds after the second printed step
LOOPBACK_AFTER = 15.0  # seconds at a rendezvous that only rank 0's host can reach
TRAINED_ALONE = "trained-alone"  # in causes.toml
METRICS = (b"loss", b"Loss", b"LOSS", b"perplexity", b"reward")
# of lines in lower case: a search that ignores case takes twice as long
_STEP = re.compile(
    r"(?<![a-z])(?:loss|perplexity|reward)\b[\"']?(?:\s*[:=]|\s+is|\s+of)?\s*(?:tensor)?[\"'(\s]*-?[\d.]"
)
_NOT_A_STEP = re.compile(r"eval|valid|test|zero.?shot|baseline")


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
    collectives: int = 0  # that have ended
    counted: bool = True  # to the end of the ranks; else there may be more
    groups: tuple[tuple[int, ...], ...] = ()
    reason: str = ""  # why it is unknown
    quiet: bool = False  # nothing suggests that the ranks should have worked together
    stuck: str = ""  # why no group was formed, where that is known
    steps: int = 0  # printed, by the rank that printed most
    trained: bool = False  # the code or the output says that ranks train, and together
    completed: bool = True  # the ranks came to their end

    @property
    def is_alarming(self) -> bool:
        return self.trained and self.verdict in (ExchangeVerdict.ALONE, ExchangeVerdict.APART)


Moved = tuple[int, str, str, int, int]  # as in ExchangeReport


@dataclass
class ExchangeWatch:
    """Collects what hosts and ranks report. It has no clock."""

    plan: LaunchPlan
    processes: dict[int, tuple[RankProcess, ...]] = field(default_factory=dict)  # by rank
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
        self._hosts = {place.rank: host.host for host in self.plan.hosts for place in host.ranks}

    def add(self, host: str, report: ExchangeReport, now: float = 0.0) -> None:
        self.silent[host] = report.silent or self.silent.get(host, "")
        if report.complete:
            self.complete.add(host)
        for rank in {process.rank for process in report.processes}:
            processes = tuple(process for process in report.processes if process.rank == rank)
            self.processes[rank] = processes
            self.written[rank] = now - min(process.age for process in processes)
        self.moved[host] = report.moved or self.moved.get(host, ())
        if self._met is None and self._describe_loopback():
            self._met = now

    def printed(self, rank: int, data: bytes, texts: Sequence[str], now: float) -> None:
        """Count lines with metrics of training. Most output has none and costs one search."""
        if self.steps.get(rank, 0) >= ENOUGH_STEPS or not any(word in data for word in METRICS):
            return
        steps = sum(1 for text in texts if is_step(text))
        if steps:
            self.steps[rank] = self.steps.get(rank, 0) + steps
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
        exchange = self.judge()
        if exchange is None or exchange.verdict is ExchangeVerdict.UNKNOWN:
            return ""
        if exchange.is_alarming:
            warned_before, self._warned = self._warned, True
            hint = f"   (ipexctl explain {TRAINED_ALONE})"
            return "" if warned_before else f"WARNING: {so_far(exchange)}{hint}"
        self._settled = True
        return "ranks have started to exchange data" if self._warned else ""

    def waiting(self, now: float) -> str:
        """Return once that ranks of other hosts cannot reach the rendezvous."""
        later = self._met is not None and now - self._met >= LOOPBACK_AFTER
        if not later or self._waited or self.written.get(0, 0.0) < (self._met or 0.0) + AGAIN:
            return ""
        self._waited = True
        return self._describe_loopback()

    def _describe_loopback(self) -> str:
        """Return the note if rank 0 waits at a loopback address for ranks of other hosts."""
        rank_0 = self.processes.get(0, ())
        waiting = (process for process in rank_0 if process.joined and not process.groups)
        address = next((process.master for process in waiting if _is_loopback(process.master)), "")
        host = self._hosts[0]
        missing = [rank for rank in self._hosts if self._hosts[rank] != host]
        if not address or not missing or any(self.processes_in_groups()):
            return ""
        return (
            f"rank 0 on {host} opened the rendezvous at {address}, a loopback address that only "
            f"{host} itself reaches; {rank_text(missing)} cannot join: the script sets "
            "MASTER_ADDR or init_method"
        )

    def processes_in_groups(self) -> Iterator[RankProcess]:
        """Yield processes whose rank and world size in torch.distributed are those of the run."""
        for rank, processes in self.processes.items():
            for process in processes:
                if (process.place, process.world) == (rank, self.plan.world_size):
                    yield process

    @property
    def is_complete(self) -> bool:
        """Return whether each host has reported everything that its ranks exchanged."""
        return all(host.host in self.complete for host in self.plan.hosts)

    def end(self, *, completed: bool) -> Exchange | None:
        exchange = self.judge(completed=completed, over=True)
        return exchange and replace(exchange, stuck=self._describe_loopback())

    def judge(self, *, completed: bool = False, over: bool = False) -> Exchange | None:
        """Judge the exchange; None for one rank. `completed`: the script came to its end."""
        world = self.plan.world_size
        if world == 1:
            return None
        steps = max(self.steps.values(), default=0)
        joins = self.plan.joins or any(p.joined for row in self.processes.values() for p in row)
        shortest = min((self._rank_seconds(rank) for rank in self._hosts), default=0.0)
        ran_long, received = completed and shortest >= LONG, self._received_bytes()
        exchange = Exchange(
            ExchangeVerdict.UNKNOWN,
            sum(received.values()),
            max((_count_collectives(process) for process in self.processes_in_groups()), default=0),
            counted=all(process.ended for process in self.processes_in_groups()),
            quiet=not joins and not steps and (shortest < SHORT or not completed),
            steps=steps,
            trained=joins and self.plan.trains and (steps > 0 or ran_long),
            completed=completed,
        )
        proven = self._find_exchanging_ranks()
        partial = {group: ranks for group, ranks in proven.items() if len(ranks) < len(group)}
        complete = proven.keys() - partial.keys()
        groups = _connected_groups(world, (pair for group in complete for pair in pairwise(group)))
        if len(groups) == 1:
            return replace(exchange, verdict=ExchangeVerdict.TOGETHER)
        if partial:
            group, ranks = min(partial.items())
            why = f"of {rank_text(group)}, only {rank_text(ranks)} ran a collective that is known"
            return replace(exchange, reason=why, quiet=not (joins and completed))
        doubts = (self._find_doubt(rank, received[rank], over) for rank in self._hosts)
        if why := next(filter(None, doubts), ""):
            return replace(exchange, reason=why, quiet=not (joins and completed))
        verdict = ExchangeVerdict.ALONE if len(groups) == world else ExchangeVerdict.APART
        return replace(exchange, verdict=verdict, groups=groups)

    def _rank_seconds(self, rank: int) -> float:
        return max((process.seconds for process in self.processes.get(rank, ())), default=0.0)

    def _find_exchanging_ranks(self) -> dict[tuple[int, ...], set[int]]:
        """Return {members of a group: those that report that they ran collectives in it}."""
        proven: dict[tuple[int, ...], set[int]] = {}
        for process in self.processes_in_groups():
            for group in process.groups:
                if group.data:
                    members = group.ranks or tuple(sorted(self._hosts))
                    proven.setdefault(members, set()).add(process.rank)
        return proven

    def _find_doubt(self, rank: int, received: int, over: bool) -> str:
        """Return why a rank may have exchanged more than is known, or "". `received`: bytes."""
        host, world = self._hosts[rank], self.plan.world_size
        processes = self.processes.get(rank, ())
        if why := self.silent.get(host):
            return why
        if over and host not in self.complete:
            return f"{host} did not report what its ranks did"
        if not any(process.main for process in processes):
            return f"rank {rank} did not import torch"
        groups = [group for process in processes if process.world != 1 for group in process.groups]
        for process in processes:
            if over and not process.ended:
                return f"rank {rank} was ended before it could say what it did"
            if process.others:
                return f"rank {rank} uses {process.others[0]}"
            if (process.place, process.world) not in ((None, None), (0, 1), (rank, world)):
                place = f"rank {process.place} of {process.world} in torch.distributed"
                return f"rank {rank} of {world} is {place}"
        if unclear := [group for group in groups if group.data is None and len(group.ranks) != 1]:
            gap = f"what rank {rank} did with {rank_text(unclear[0].ranks or self._hosts)}"
            return f"{unclear[0].backend} of torch {processes[0].torch} does not record {gap}"
        if received > MUCH and not any(group.data for group in groups):
            return f"rank {rank} exchanged {short_size(received)} outside of torch.distributed"
        return ""

    def _received_bytes(self) -> dict[int, int]:
        """Return the bytes that each rank received from addresses of the run's ranks."""
        rows = [row for moved in self.moved.values() for row in moved]
        own_addresses = {local for _, local, _, _, _ in rows}
        single_ranks = {host.ranks[0].rank for host in self.plan.hosts if len(host.ranks) == 1}
        totals = dict.fromkeys(self._hosts, 0)
        for rank, local, peer, _, received in rows:
            if peer in own_addresses and not (local == peer and rank in single_ranks):
                totals[rank] += received
        return totals


def _count_collectives(process: RankProcess) -> int:
    return sum(group.count for group in process.groups if group.data)


def _is_loopback(place: str) -> bool:
    address = place.rpartition(":")[0].strip("[]")
    return address == "localhost" or is_loopback(address)


def is_step(text: str) -> bool:
    """Return whether a line of training has a metric in it; evaluation does not count."""
    lower = text[:2000].lower()
    return bool(_STEP.search(lower)) and not _NOT_A_STEP.search(lower)


def so_far(exchange: Exchange) -> str:
    """Return the warning, while the run is active."""
    if exchange.verdict is ExchangeVerdict.ALONE:
        return f"after {exchange.steps} printed steps ranks have exchanged nothing so far"
    return f"so far {_apart_sentence(exchange)}"


def _apart_sentence(exchange: Exchange) -> str:
    groups = [f"{fold_numbers(group)}" for group in exchange.groups[:4]]
    more = f" and {len(exchange.groups) - 4} more" if len(exchange.groups) > 4 else ""
    return (
        f"ranks exchanged {_amount_text(exchange)}, but only within {len(exchange.groups)} groups: "
        f"ranks {' | '.join(groups)}{more}"
    )


def _amount_text(exchange: Exchange) -> str:
    return f"at least {short_size(exchange.bytes)}" if exchange.bytes else "data"


def describe_exchange(exchange: Exchange, world: int) -> str:
    """Return the line of the summary."""
    if exchange.verdict is ExchangeVerdict.UNKNOWN:
        return f"it is unknown what ranks exchanged: {exchange.reason}"
    if exchange.verdict is ExchangeVerdict.APART:
        return _apart_sentence(exchange)
    if exchange.verdict is ExchangeVerdict.ALONE:
        if not (exchange.trained or exchange.completed):
            return "ranks exchanged nothing"
        verb = "trained" if exchange.trained and exchange.steps else "ran"
        return f"ranks exchanged nothing: each of the {world} {verb} alone"
    calls, steps = exchange.collectives, exchange.steps
    least = "" if exchange.counted else "at least "
    ran = f" in {least}{count(calls, 'collective')}" if calls else ""
    fewer = f", fewer than {steps} printed steps" if exchange.counted and calls < steps else ""
    return f"ranks exchanged {_amount_text(exchange)}{ran}{fewer if ran else ''}"


def _connected_groups(world: int, pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    parent = list(range(world))

    def root(rank: int) -> int:
        while parent[rank] != rank:
            parent[rank] = parent[parent[rank]]
            rank = parent[rank]
        return rank

    for left, right in pairs:
        parent[root(left)] = root(right)
    groups: dict[int, list[int]] = {}
    for rank in range(world):
        groups.setdefault(root(rank), []).append(rank)
    return tuple(tuple(group) for group in groups.values())
