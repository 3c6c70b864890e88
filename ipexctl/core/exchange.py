"""Do the ranks of a run train together? Judged by what they exchange, whatever the framework.

Hosts report the TCP connections of their ranks with the kernel's byte counters. A connection whose
two ends belong to two ranks is an edge; ranks that edges connect work together. Forming a group
costs some ten bytes on each of gloo's connections and a barrier three messages of 48; both prove
nothing. The wrapper of a model alone (DDP) exchanges more than twice as much.

The rendezvous (TCPStore) does not count. It is the one server to which a rank connects itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from ipexctl.core.fold import ranges
from ipexctl.core.frameworks import Frameworks
from ipexctl.core.model import LaunchPlan
from ipexctl.core.sizes import short

Key = tuple[str, int, str, int]  # own address and port, the other end's

GREETING = 320  # bytes on a connection that was opened for a group, and for a barrier or two
PER_STEP = 16  # fewer for each printed step: not one message of a collective
HEAVY = 100  # times what a message takes: then the light connections beside it are told apart
LIGHT = 10_000  # of a heavy connection's bytes, the part that still counts
FOREIGN = 1_000_000  # bytes in both directions with an address that is not a rank's
MOST_LINKS = 1024  # of one rank; those with the fewest bytes make room
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
    reporting: set[str] = field(default_factory=set)  # hosts that have counted
    _met: float | None = None  # when the first rank reached the rendezvous
    _second: float | None = None  # when a rank had printed two steps
    _warned: bool = False

    def add(self, host: str, report: Report, now: float = 0.0) -> None:
        self.reporting.add(host)
        self.joined.update(report.joined)
        if self.joined and self._met is None:
            self._met = now
        self.sharing[host] = report.sharing or self.sharing.get(host, ())
        if report.trouble:
            self.trouble[host] = report.trouble
        for rank, key, sent, received in report.links:
            known = self.links.setdefault(rank, {})
            if key not in known and len(known) >= MOST_LINKS:
                del known[min(known, key=lambda k: sum(known[k]))]
            known[key] = (sent, received)

    def printed(self, rank: int, data: bytes, texts: Sequence[str], now: float) -> None:
        """Counts lines with a training metric. Most output has none and costs one search."""
        if not any(word in data for word in METRICS):
            return
        found = sum(1 for text in texts if is_step(text))
        if found:
            self.steps[rank] = self.steps.get(rank, 0) + found
            if self._second is None and self.steps[rank] > 1:
                self._second = now

    def warning(self, now: float) -> str:
        """Said once, seconds after the second printed step; empty: nothing to say."""
        if self._warned or self._second is None or now - self._second < WARN_AFTER:
            return ""
        self._warned = True  # looked at once: an exchange that comes later is the summary's
        found = self.judge()
        if found is None or not found.alarming:
            return ""
        said = sentence(found, self.plan.world_size)
        return f"WARNING: {said}   (ipexctl explain {TRAINED_ALONE})"

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
                "have not formed a group: do two of them claim the same rank (GROUP_RANK, "
                "NODE_RANK), or do they expect another world size?"
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
        groups = _components(world, [*_live(edges, steps), *shared])
        if len(groups) == 1:
            return replace(seen, verdict=Verdict.TOGETHER)
        if foreign := self._foreign(edges):
            why = (
                f"rank {foreign[0]} exchanged data with {foreign[1]}, which is not a rank's address"
            )
            return replace(seen, reason=why)
        verdict = Verdict.ALONE if len(groups) == world else Verdict.APART
        return replace(seen, verdict=verdict, groups=groups)

    def _trains(self, steps: int, *, completed: bool) -> bool:
        code = self.frameworks
        meant = code is None or code.means_together or bool(self.joined)
        return meant and (steps > 0 or (completed and (code is None or code.trains)))

    def _edges(self) -> Iterator[tuple[tuple[int, int, Key], tuple[int, int]]]:
        """(rank, other rank, own end): (sent, received), once from each side."""
        owner = {key: rank for rank, own in self.links.items() for key in own}
        ends = {key: owner.get((key[2], key[3], key[0], key[1])) for key in owner}
        stores = {(rank, key[1]) for key, rank in owner.items() if ends[key] == rank}
        for key, rank in owner.items():
            other = ends[key]
            if other is None or stores & {(rank, key[1]), (other, key[3])}:
                continue
            yield (rank, other, key), self.links[rank][key]

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


def sentence(found: Exchange, world: int) -> str:
    """The line of the summary and of the warning."""
    if found.verdict is Verdict.UNKNOWN:
        return f"what ranks exchanged is not known: {found.reason}"
    if found.verdict is Verdict.APART:
        groups = [f"{ranges(group)}" for group in found.groups[:4]]
        more = f" and {len(found.groups) - 4} more" if len(found.groups) > 4 else ""
        return (
            f"ranks exchanged {short(found.bytes)}, but only within {len(found.groups)} groups: "
            f"ranks {' | '.join(groups)}{more}"
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
        else ("ranks shared memory on their hosts, of which no bytes are counted")
    )


def _live(
    edges: Mapping[tuple[int, int, Key], tuple[int, int]], steps: int
) -> Iterator[tuple[int, int]]:
    """The pairs of ranks whose connection carried more than a greeting.

    Beside heavy connections, those that carried next to nothing (a barrier, a name) do not count.
    """
    least = GREETING + PER_STEP * steps
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
