"""Do the ranks of a run train together? Judged by what they exchange, whatever the framework.

Hosts report the TCP connections of their ranks with the kernel's byte counters. A connection whose
two ends belong to two ranks is an edge; ranks that edges connect work together. Forming a group
costs some ten bytes on each of gloo's connections and a barrier three messages of 48; both prove
nothing. The wrapper of a model alone (DDP) exchanges more than twice as much.

The rendezvous (TCPStore) does not count. It is the one server to which a rank connects itself.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from ipexctl.core.model import LaunchPlan
from ipexctl.core.output.merge_lines import ranges
from ipexctl.core.script.frameworks import Frameworks
from ipexctl.core.sizes import short

Key = tuple[str, int, str, int]  # own address and port, the other end's

GREETING = 320  # bytes on a connection that was opened for a group, and for a barrier or two
WORD = 32  # bytes on a connection that was only opened: what counts where nothing is trained
PER_STEP = 16  # fewer for each printed step: not one message of a collective
HEAVY = 100  # times what a message takes: then the light connections beside it are told apart
LIGHT = 10_000  # of a heavy connection's bytes, the part that still counts
FOREIGN = 1_000_000  # bytes in both directions with an address that is not a rank's
AGAIN = 5.0  # seconds until the next look after a warning
MANY_STEPS = 10  # printed, before it counts that nothing was exchanged since the second
ENOUGH_STEPS = 10_000  # of a rank; a flood of lines is not counted further
BARRIER = 200  # bytes on a connection
MOST_LINKS = 1024  # of one rank; when there are twice as many, those with the fewest bytes go
MOST_STRAYS = 1 << 16  # of all hosts, likewise
WARN_AFTER = 15.0  # seconds after the second printed step
WAIT_AFTER = 60.0  # seconds at the rendezvous
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
    steps: int = 0  # printed, by the rank that printed most
    shared: bool = False  # ranks of a host share memory, whose bytes are not counted
    trained: bool = False  # the code or the output says that ranks train, and together
    completed: bool = True  # the ranks came to their end
    early: bool = False  # they exchanged something before their second step, and nothing since

    @property
    def alarming(self) -> bool:
        return self.trained and self.verdict in (Verdict.ALONE, Verdict.APART)


@dataclass(frozen=True)
class Report:
    """What a host says about its ranks since its last report."""

    links: tuple[tuple[int, Key, int, int], ...] = ()  # rank, link, bytes sent and received so far
    joined: tuple[int, ...] = ()  # ranks with a connection to the rendezvous
    sharing: tuple[tuple[int, ...], ...] = ()  # ranks that map the same shared memory
    trouble: str = ""  # why it counts nothing
    strays: tuple[tuple[Key, int, int], ...] = ()  # closed before it was known whose they were


@dataclass
class Watch:
    """Fed with what hosts and ranks report; no clock here."""

    plan: LaunchPlan
    frameworks: Frameworks | None = None  # None: the code is not known here
    links: dict[int, dict[Key, tuple[int, int]]] = field(default_factory=dict)
    steps: dict[int, int] = field(default_factory=dict)
    joined: set[int] = field(default_factory=set)  # ranks that reached the rendezvous
    sharing: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    trouble: dict[str, str] = field(default_factory=dict)  # host -> why it counts nothing
    strays: dict[Key, tuple[int, int]] = field(default_factory=dict)
    _single: dict[Key, int] = field(default_factory=dict)  # strays on a host with this one rank
    reporting: set[str] = field(default_factory=set)  # hosts that have counted
    _met: float | None = None  # when the first rank reached the rendezvous
    _second: float | None = None  # when a rank had printed two steps
    _at_second: dict[Key, int] | None = None  # bytes on each connection then
    _warned: float | None = None  # when
    _settled: bool = False  # whether there is nothing more to say

    def add(self, host: str, report: Report, now: float = 0.0) -> None:
        self.reporting.add(host)
        self.joined.update(report.joined)
        if self.joined and self._met is None:
            self._met = now
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

    def printed(self, rank: int, data: bytes, texts: Sequence[str], now: float) -> None:
        """Counts lines with a training metric. Most output has none and costs one search."""
        if self.steps.get(rank, 0) >= ENOUGH_STEPS or not any(word in data for word in METRICS):
            return
        found = sum(1 for text in texts if is_step(text))
        if found:
            self.steps[rank] = self.steps.get(rank, 0) + found
            if self._second is None and self.steps[rank] > 1:
                self._second = now
                self._at_second = {
                    key: max(n) for own in self.links.values() for key, n in own.items()
                }

    def warning(self, now: float) -> str:
        """Some seconds after the second printed step, and once more when it is no longer true."""
        if self._second is None or now - self._second < WARN_AFTER or self._settled:
            return ""
        if self._warned is not None and now - self._warned < AGAIN:
            return ""
        found = self.judge()
        alarming = found is not None and found.alarming
        if self._warned is None:
            self._warned, self._settled = now, not alarming
            more = f"   (ipexctl explain {TRAINED_ALONE})"
            return f"WARNING: {so_far(found)}{more}" if found and alarming else ""
        self._warned, self._settled = now, not alarming
        return "" if alarming else "ranks have started to exchange data"

    def waiting(self, now: float) -> str:
        """Said once: ranks are at the rendezvous, and no group has come of it."""
        if self._met is None or now - self._met < WAIT_AFTER:
            return ""
        self._met = float("inf")  # looked at once
        if any(self._edges()):
            return ""
        world = self.plan.world_size
        missing = sorted(set(range(world)) - self.joined)
        if not missing:
            return (
                f"all {world} ranks reached the rendezvous {WAIT_AFTER:.0f} s ago and "
                "have not formed a group: check whether two of them have the same rank "
                "(GROUP_RANK, NODE_RANK) or a different world size"
            )
        verb = "has" if len(missing) == 1 else "have"
        return (
            f"{len(self.joined)} of {world} ranks have been waiting at the rendezvous "
            f"for {WAIT_AFTER:.0f} s; rank {ranges(missing)} {verb} not reached it"
        )

    def judge(self, *, completed: bool = False) -> Exchange | None:
        """None for one rank. What a script would do counts only where it came to its end."""
        world = self.plan.world_size
        if world == 1:
            return None
        steps = max(self.steps.values(), default=0)
        blind = {h.host: self.trouble.get(h.host, "") for h in self.plan.hosts}
        silent = [h for h in blind if blind[h] or h not in self.reporting]
        edges = dict(self._edges())
        total = sum(received for _, received in edges.values())
        shared = {pair for groups in self.sharing.values() for g in groups for pair in _chain(g)}
        seen = Exchange(
            Verdict.UNKNOWN,
            total,
            steps=steps,
            shared=bool(shared),
            trained=self._trains(steps, completed=completed),
            completed=completed,
        )
        if silent:
            why = f"{silent[0]}: {blind[silent[0]] or 'it reported no counters'}"
            return replace(seen, reason=why)
        least = (GREETING if seen.trained or not completed else WORD) + PER_STEP * steps
        groups = _components(world, [*_live(edges, least), *shared])
        if len(groups) == 1:
            stopped = completed and steps >= MANY_STEPS and self._stopped(edges) and not shared
            verdict = Verdict.ALONE if stopped else Verdict.TOGETHER
            return replace(seen, verdict=verdict, early=stopped)
        if foreign := self._foreign(edges):
            why = (
                f"rank {foreign[0]} exchanged data with {foreign[1]}, which is not a rank's address"
            )
            return replace(seen, reason=why)
        if self.joined and self._uncounted(edges, least):
            why = "connections between the hosts closed too soon to be assigned to ranks"
            return replace(seen, reason=why)
        verdict = Verdict.ALONE if len(groups) == world else Verdict.APART
        return replace(seen, verdict=verdict, groups=groups)

    def _trains(self, steps: int, *, completed: bool) -> bool:
        code = self.frameworks
        meant = code is None or code.means_together or bool(self.joined)
        trains = code is None or code.trains
        return meant and trains and (steps > 0 or completed)

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

    def _stopped(self, edges: Mapping[tuple[int, int, Key], tuple[int, int]]) -> bool:
        """Has no connection carried more than a barrier since the second printed step?"""
        before = self._at_second
        return before is not None and all(
            max(numbers) - before.get(key, 0) <= BARRIER for (_, _, key), numbers in edges.items()
        )

    def _uncounted(self, edges: Mapping[tuple[int, int, Key], tuple[int, int]], least: int) -> bool:
        """Is there a rank whose connections were never seen, and did both ends of one close that
        no rank was seen to have?"""
        if len({rank for rank, _, _ in edges}) == self.plan.world_size:
            return False
        found = self.strays
        known = {key for own in self.links.values() for key in own}
        return any(
            max(numbers) > least
            and ((other := (k[2], k[3], k[0], k[1])) in found or other in known)
            for k, numbers in found.items()
        )

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
        return f"after {found.steps} printed steps ranks have exchanged nothing so far"
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
    if found.early:
        return (
            f"ranks exchanged {short(found.bytes)} before their second step and nothing since: "
            f"each of the {world} trained alone"
        )
    if found.verdict is Verdict.ALONE:
        if not (found.trained or found.completed):
            return "ranks exchanged nothing"
        verb = "trained" if found.trained else "ran"
        return f"ranks exchanged nothing: each of the {world} {verb} alone"
    where = ", and shared memory on their hosts" if found.shared else ""
    return (
        f"ranks exchanged {short(found.bytes)}{where}"
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


def _chain(group: Sequence[int]) -> Iterator[tuple[int, int]]:
    yield from zip(group, group[1:], strict=False)


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
