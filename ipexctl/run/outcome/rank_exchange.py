"""Do the ranks of a run train together? Judged by what they exchange, whatever the framework.

Hosts report the TCP connections of their ranks with the kernel's byte counters. A connection whose
two ends belong to two ranks is an edge; ranks that edges connect work together. Forming a group
costs some ten bytes on each of gloo's connections and a barrier three messages of 48; both prove
nothing. The wrapper of a model alone (DDP) exchanges more than twice as much.

The rendezvous (TCPStore) does not count. It is the one server to which a rank connects itself.

That ranks work together is proven by bytes. That they do not is said only where nothing can have
been missed: every host's counters are complete, and the ranks ran long enough.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from itertools import pairwise
from typing import Any

from ipexctl.base.host_answer import Line, as_type
from ipexctl.base.sizes import ranges, short
from ipexctl.base.values import by
from ipexctl.facts.host_facts import loopback
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.plan.launch import LaunchPlan

Key = tuple[str, int, str, int]  # own address and port, the other end's

GREETING = 320  # bytes on a connection that was opened for a group, and for a barrier or two
WORD = 32  # bytes on a connection that was only opened: what counts where nothing is trained
PER_STEP = 16  # fewer for each printed step: not one message of a collective
HEAVY = 100  # times what a message takes: then the light connections beside it are told apart
LIGHT = 10_000  # of a heavy connection's bytes, the part that still counts
FOREIGN = 1_000_000  # bytes in both directions with an address that is not a rank's
EPHEMERAL = 32768  # ports from here on are those that the system chooses
AGAIN = 5.0  # seconds until the next look after a warning
MANY_STEPS = 10  # printed: from then on a few bytes are too little
ENOUGH_STEPS = 10_000  # of a rank; a flood of lines is not counted further
SHORTEST = 5.0  # seconds: of a rank that ended before, it is not said that it exchanged nothing
LONG = 30.0  # seconds after which code that trains has begun to, though it prints no steps
MOST_LINKS = 1024  # of one rank; when there are twice as many, those with the fewest bytes go
MOST_STRAYS = 1 << 16  # of all hosts, likewise
WARN_AFTER = 15.0  # seconds after the second printed step
LOOPBACK_AFTER = 15.0  # seconds at a rendezvous that only the own host reaches
TRAINED_ALONE = "trained-alone"  # in causes.toml
METRICS = (b"loss", b"Loss", b"LOSS", b"perplexity", b"reward")
_STEP = re.compile(
    r"(?<![a-z])(?:loss|perplexity|reward)\b[\"']?(?:\s*[:=]|\s+is|\s+of)?\s*(?:tensor)?[\"'(\s]*-?[\d.]",
    re.IGNORECASE,
)
_NOT_A_STEP = re.compile(r"eval|valid|test|zero.?shot|baseline", re.IGNORECASE)


class Verdict(str, Enum):
    TOGETHER = "together"
    ALONE = "alone"  # at least one rank exchanged nothing, and so did all others
    APART = "apart"  # groups of ranks, and nothing between them
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Exchange:
    """What was seen. `groups`: ranks that worked together, where that is not all of them."""

    verdict: Verdict
    bytes: int = 0
    groups: tuple[tuple[int, ...], ...] = ()
    reason: str = ""  # why it is unknown
    too_small: bool = False  # the run was over too soon, or too little was sent, to tell
    partial: bool = False  # more was exchanged than could be counted
    stuck: str = ""  # why no group was formed, where that is known
    little: bool = False  # some bytes, but less than a message for each step
    steps: int = 0  # printed, by the rank that printed most
    shared: bool = False  # ranks of a host share memory, whose bytes are not counted
    trained: bool = False  # the code or the output says that ranks train, and together
    completed: bool = True  # the ranks came to their end

    @property
    def alarming(self) -> bool:
        return self.trained and self.verdict in (Verdict.ALONE, Verdict.APART)


def _links(rows: Any) -> tuple[tuple[int, Key, int, int], ...]:
    """In a message, the ends of a link stand in its row."""
    found = as_type(tuple[tuple[int, str, int, str, int, int, int], ...], rows)
    return tuple((rank, (*key,), sent, got) for rank, *key, sent, got in found)


def _strays(rows: Any) -> tuple[tuple[Key, int, int], ...]:
    found = as_type(tuple[tuple[str, int, str, int, int, int], ...], rows)
    return tuple(((*key,), sent, received) for *key, sent, received in found)


@dataclass(frozen=True)
class Report:
    """What a host says about its ranks since its last report."""

    # rank, link, bytes sent and received so far
    links: tuple[tuple[int, Key, int, int], ...] = field(default=(), metadata=by(_links))
    sharing: tuple[tuple[int, ...], ...] = ()  # ranks that map the same shared memory
    trouble: Line = ""  # why it counts nothing
    # closed before it was known whose they were
    strays: tuple[tuple[Key, int, int], ...] = field(default=(), metadata=by(_strays))
    missed: Line = ""  # why its ranks may have exchanged more
    watched: float | None = None  # at the end: seconds that each of its ranks was watched, or more


@dataclass
class Watch:
    """Fed with what hosts and ranks report; no clock here."""

    plan: LaunchPlan
    links: dict[int, dict[Key, tuple[int, int]]] = field(default_factory=dict)
    steps: dict[int, int] = field(default_factory=dict)
    watched: dict[str, float] = field(default_factory=dict)  # by host, when it is over
    missed: dict[str, str] = field(default_factory=dict)  # host -> why it may have missed some
    sharing: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    trouble: dict[str, str] = field(default_factory=dict)  # host -> why it counts nothing
    strays: dict[Key, tuple[int, int]] = field(default_factory=dict)
    _single: dict[Key, int] = field(default_factory=dict)  # strays on a host with this one rank
    reporting: set[str] = field(default_factory=set)  # hosts that have counted
    _met: float | None = None  # when the first rank reached the rendezvous
    _waited: bool = False  # whether it was looked where that is
    _second: float | None = None  # when a rank had printed two steps
    _looked: float | None = None  # when, whether that is a reason to warn
    _warned: bool = False
    _settled: bool = False  # whether there is nothing more to say

    def add(self, host: str, report: Report, now: float = 0.0) -> None:
        self.reporting.add(host)
        if report.missed:
            self.missed[host] = report.missed
        if report.watched is not None:
            self.watched[host] = report.watched
        self.sharing[host] = report.sharing or self.sharing.get(host, ())
        if report.trouble:
            self.trouble[host] = report.trouble
        self.strays.update({key: (sent, received) for key, sent, received in report.strays})
        self.strays = _largest(self.strays, MOST_STRAYS)
        ranks = next((h.ranks for h in self.plan.hosts if h.host == host), ())
        if len(ranks) == 1:
            self._single.update((key, ranks[0].rank) for key, _, _ in report.strays)
            if len(self._single) > 2 * MOST_STRAYS:
                self._single = {k: r for k, r in self._single.items() if k in self.strays}
        for rank, key, sent, received in report.links:
            self.links.setdefault(rank, {})[key] = (sent, received)
            self.links[rank] = _largest(self.links[rank], MOST_LINKS)
        if self._met is None and any(self._doors(report.links)):
            self._met = now

    def _doors(self, links: Iterable[tuple[int, Key, int, int]]) -> Iterator[int]:
        """The ports of a rendezvous: MASTER_PORT, and the lower ones to which a rank connects
        itself. Programs that talk to themselves or to their children choose higher ones."""
        for rank, (here, own, there, port), _, _ in links:
            if self.plan.master_port in (own, port):
                yield self.plan.master_port
            elif port < EPHEMERAL and (there, port, here, own) in self.links.get(rank, ()):
                yield port

    def _joined(self) -> dict[int, tuple[str, int]]:
        """Ranks that have reached a rendezvous, and where."""
        links = [(rank, key, 0, 0) for rank, own in self.links.items() for key in own]
        doors = set(self._doors(links))
        found = {rank: key[:2] for rank, key, _, _ in links if key[1] in doors}
        return {**found, **{rank: key[2:] for rank, key, _, _ in links if key[3] in doors}}

    def printed(self, rank: int, data: bytes, texts: Sequence[str], now: float) -> None:
        """Counts lines with a training metric. Most output has none and costs one search."""
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
        """Some seconds after the second printed step, and once more when it is no longer true."""
        if self._second is None or now - self._second < WARN_AFTER or self._settled:
            return ""
        if self._looked is not None and now - self._looked < AGAIN:
            return ""
        self._looked = now
        found = self.judge()
        if found is None or found.verdict is Verdict.UNKNOWN:
            return ""
        if found.alarming:
            before, self._warned = self._warned, True
            more = f"   (ipexctl explain {TRAINED_ALONE})"
            return "" if before else f"WARNING: {so_far(found)}{more}"
        self._settled = True
        return "ranks have started to exchange data" if self._warned else ""

    def waiting(self, now: float) -> str:
        """Said once: the rendezvous is where the ranks of other hosts do not reach it."""
        if self._met is None or now - self._met < LOOPBACK_AFTER or self._waited:
            return ""
        self._waited = True
        return "" if any(self._edges()) else self._at_loopback()

    def _at_loopback(self) -> str:
        joined = self._joined()
        hosts = {self.plan.host_of(rank) for rank in joined}
        missing = set(range(self.plan.world_size)) - joined.keys()
        if len(hosts) != 1 or not missing or not all(loopback(a) for a, _ in joined.values()):
            return ""
        (here,), (address, port) = hosts, min(joined.values())
        return (
            f"{_ranks(joined)} on {here} opened the rendezvous at "
            f"{f'[{address}]' if ':' in address else address}:{port}, a loopback address that only "
            f"{here} itself reaches; {_ranks(missing)} cannot join: the script sets MASTER_ADDR or "
            "init_method"
        )

    @property
    def is_complete(self) -> bool:
        """Whether each host has said what its ranks exchanged in all."""
        return all(host.host in self.watched for host in self.plan.hosts)

    def end(self, *, completed: bool) -> Exchange | None:
        found = self.judge(completed=completed, over=True)
        return found and replace(found, stuck="" if any(self._edges()) else self._at_loopback())

    def judge(self, *, completed: bool = False, over: bool = False) -> Exchange | None:
        """None for one rank. What a script would do counts only where it came to its end."""
        world = self.plan.world_size
        if world == 1:
            return None
        steps = max(self.steps.values(), default=0)
        edges = dict(self._edges())
        shared = {pair for groups in self.sharing.values() for g in groups for pair in pairwise(g)}
        seen = Exchange(
            Verdict.UNKNOWN,
            sum(received for _, received in edges.values()),
            steps=steps,
            shared=bool(shared),
            trained=self._trains(steps, completed=completed),
            completed=completed,
            partial=self._uncounted(),
        )
        if blind := self._blind():
            return replace(seen, reason=blind)
        least = (GREETING if seen.trained or not completed else WORD) + PER_STEP * steps
        groups = _components(world, [*_live(edges, least), *shared])
        if len(groups) == 1:
            return replace(seen, verdict=Verdict.TOGETHER)
        if foreign := self._foreign(edges):
            why = (
                f"rank {foreign[0]} exchanged data with {foreign[1]}, which is not a rank's address"
            )
            return replace(seen, reason=why)
        if over and (why := self._too_soon()):
            return replace(seen, reason=why, too_small=True)
        if why := self._doubt():
            return replace(seen, reason=why)
        said = _components(world, [*_live(edges, WORD), *shared])
        if said != groups and steps < MANY_STEPS:
            why = f"the ranks exchanged {short(seen.bytes)}, which is too little to tell"
            return replace(seen, reason=why, too_small=True)
        verdict = Verdict.ALONE if len(groups) == world else Verdict.APART
        return replace(seen, verdict=verdict, groups=groups, little=said != groups)

    def _blind(self) -> str:
        """Why a host's numbers are missing."""
        for name in (h.host for h in self.plan.hosts):
            if self.trouble.get(name) or name not in self.reporting:
                return f"{name}: {self.trouble.get(name) or 'it reported no counters'}"
        return ""

    def _too_soon(self) -> str:
        """Why nothing can be said of ranks that were seen to exchange nothing."""
        for name in (h.host for h in self.plan.hosts):
            if name not in self.watched:
                return f"{name} did not report its last counters"
        if min(self.watched.values()) < SHORTEST:
            return f"a rank ran for less than {SHORTEST:.0f} s, which is too short to tell"
        return ""

    def _doubt(self) -> str:
        """Why there may be more connections between ranks than were seen."""
        for host, why in sorted(self.missed.items()):
            return f"{host}: {why}"
        if self._uncounted():
            return "connections between the hosts closed too soon to be assigned to ranks"
        return ""

    def _trains(self, steps: int, *, completed: bool) -> bool:
        meant = self.plan.joins or self._met is not None
        lasted = completed and min(self.watched.values(), default=0.0) >= LONG
        return meant and self.plan.trains and (steps > 0 or lasted)

    def _edges(self) -> Iterator[tuple[tuple[int, int, Key], tuple[int, int]]]:
        """(rank, other rank, own end): (sent, received), once from each side."""
        owner = {key: rank for rank, own in self.links.items() for key in own}
        ends = {key: owner.get((key[2], key[3], key[0], key[1])) for key in owner}
        stores = {(rank, key[1]) for key, rank in owner.items() if ends[key] == rank}
        for key, rank in owner.items():
            other = ends[key]
            if other is None:
                yield from self._to_single(rank, key)
                continue
            if self.plan.master_port in (key[1], key[3]):
                continue
            if stores & {(rank, key[1]), (other, key[3])}:
                continue
            yield (rank, other, key), self.links[rank][key]

    def _to_single(
        self, rank: int, key: Key
    ) -> Iterator[tuple[tuple[int, int, Key], tuple[int, int]]]:
        """A connection whose other end closed before it was known whose it was, on a host where it
        can only be one rank's. Programs of MPI have no end that is a rank's."""
        back = (key[2], key[3], key[0], key[1])
        other = self._single.get(back)
        if other in (None, rank) or back not in self.strays:
            return
        if self.plan.master_port not in (key[1], key[3]):
            yield (rank, other, key), self.links[rank][key]
            yield (other, rank, back), self.strays[back]

    def _uncounted(self) -> bool:
        """Did a connection close before it was known whose it was, that can be two ranks'? Both of
        its ends were seen, and if they are on one host, that host has two ranks."""
        known = {key for own in self.links.values() for key in own}
        doors = {self.plan.master_port, *(port for _, port in self._joined().values())}
        for key, numbers in self.strays.items():
            back = (key[2], key[3], key[0], key[1])
            if max(numbers) <= WORD or doors & {key[1], key[3]}:
                continue
            rank = self._single.get(key)  # then `_to_single` counts it if the other end is a rank's
            if back in known and rank is None:
                return True
            if back in self.strays and (rank is None or rank != self._single.get(back)):
                return True
        return False

    def _foreign(
        self, edges: Mapping[tuple[int, int, Key], tuple[int, int]]
    ) -> tuple[int, str] | None:
        matched = {key for _, _, key in edges}
        for rank, own in self.links.items():
            for key, numbers in own.items():
                if key not in matched and min(numbers) > FOREIGN:
                    return rank, key[2]
        return None


def is_step(text: str) -> bool:
    """A line of training with a metric in it; not one of an evaluation."""
    return bool(_STEP.search(text[:2000])) and not _NOT_A_STEP.search(text[:2000])


def so_far(found: Exchange) -> str:
    """The warning, while the run goes on."""
    if found.verdict is Verdict.ALONE:
        what = f"only {short(found.bytes)}" if found.little else "nothing"
        return f"after {found.steps} printed steps ranks have exchanged {what} so far"
    return f"so far {_apart(found)}"


def _apart(found: Exchange) -> str:
    groups = [f"{ranges(group)}" for group in found.groups[:4]]
    more = f" and {len(found.groups) - 4} more" if len(found.groups) > 4 else ""
    return (
        f"ranks exchanged {short(found.bytes)}, but only within {len(found.groups)} groups: "
        f"ranks {' | '.join(groups)}{more}"
    )


def sentence(found: Exchange, world: int) -> str:
    """The line of the summary."""
    if found.verdict is Verdict.UNKNOWN:
        return f"it is unknown what ranks exchanged: {found.reason}"
    if found.verdict is Verdict.APART:
        return _apart(found)
    if found.verdict is Verdict.ALONE:
        if not (found.trained or found.completed):
            return "ranks exchanged nothing"
        verb = "trained" if found.trained and found.steps else "ran"
        if found.little:
            amount = f"only {short(found.bytes)} in {found.steps} steps"
            return f"ranks exchanged {amount}: each of the {world} {verb} alone"
        return f"ranks exchanged nothing: each of the {world} {verb} alone"
    where = ", and shared memory on their hosts" if found.shared else ""
    least = "at least " if found.partial else ""
    return (
        f"ranks exchanged {least}{short(found.bytes)}{where}"
        if found.bytes or not where
        else ("ranks exchanged data through shared memory on their hosts, which is not counted")
    )


def _live(
    edges: Mapping[tuple[int, int, Key], tuple[int, int]], least: int
) -> Iterator[tuple[int, int]]:
    """The pairs of ranks whose connection carried more than `least` bytes.

    Beside heavy connections, those that carried next to nothing (a barrier, a name) do not count.
    """
    heaviest = max((max(numbers) for numbers in edges.values()), default=0)
    if heaviest > HEAVY * (least + 256):
        least = max(least + 256, heaviest // LIGHT)
    for (rank, other, _), numbers in edges.items():
        if max(numbers) > least:
            yield rank, other


def _ranks(some: Iterable[int]) -> str:
    ranks = sorted(some)
    return f"rank{'s' * (len(ranks) > 1)} {ranges(ranks)}"


def _components(world: int, pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
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


def _largest(table: dict[Key, tuple[int, int]], most: int) -> dict[Key, tuple[int, int]]:
    """The same table, until it has twice as many as `most`: then those with the most bytes."""
    if len(table) <= 2 * most:
        return table
    return dict(heapq.nlargest(most, table.items(), key=lambda row: sum(row[1])))
