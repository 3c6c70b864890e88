"""What a step of a run costs on each host, and what takes longer in the steps of a slower run."""

from __future__ import annotations

from ipexctl.quick_dataclass import dataclass
from ipexctl.report.comparison.recorded_inputs import RunRecord

LATE = 0.9  # times as busy as the busiest host: others may wait for such a host, too
MORE = 0.1  # of a step's time: waiting for a CPU, or an exchange, that grew by less is not reported
SHARE = 0.2  # of the longer time of a step: a part with less of it is not listed
PARTS = {
    "computing": "computing",
    "waited": "waiting for a CPU",
    "sending": "exchanging data",
    "idle": "other waits",
}


@dataclass(frozen=True)
class Cost:
    """Seconds of one step, the mean of a host's ranks. `waited`: threads were runnable without a
    CPU. `idle`: none of the others, as for a host that is late, a disk, or sleep."""

    computing: float
    waited: float
    sending: float
    idle: float

    @property
    def step(self) -> float:
        return self.computing + self.waited + self.sending + self.idle

    @property
    def busy(self) -> float:
        """The seconds for which the other hosts wait."""
        return self.computing + self.waited


@dataclass(frozen=True)
class Growth:
    """Why one run's steps take longer than another's, on the host that the others wait for."""

    host: str
    parts: tuple[str, ...]  # of a step there that take longer, the longest first
    late: frozenset[str]  # hosts that the others may wait for; `host` is one of them


def step_costs(run: RunRecord) -> dict[str, Cost]:
    """Return the cost of a step on each host, by the CPU time and sending of its ranks."""
    costs = {}
    for host, pace in run.paces.items():
        if not pace.ranks or not run.speed:
            continue
        step, count = 1 / run.speed.rate, len(pace.ranks)
        cpus = sum(rank.cpus for rank in pace.ranks) / count
        threads = run.threads(host) or 1  # each computes, waits, or sleeps
        computing = min(1.0, cpus / threads)
        waits = sum(rank.waited or 0.0 for rank in pace.ranks) / count
        waited = min(1 - computing, waits / threads)
        rest = 1 - computing - waited
        sending = min(rest, sum(rank.sending or 0.0 for rank in pace.ranks) / count)
        costs[host] = Cost(computing * step, waited * step, sending * step, (rest - sending) * step)
    return costs


def step_growth(slower: RunRecord, faster: RunRecord) -> Growth | None:
    """Return what differs; None if the ranks' activity is unknown for one of the runs, or one has
    the time of a step and the other that of an epoch."""
    if slower.speed and faster.speed and slower.speed.unit != faster.speed.unit:
        return None
    now, before = step_costs(slower), step_costs(faster)
    if not now or not before:
        return None
    host = max(now, key=lambda name: now[name].busy)
    busiest = max(before.values(), key=lambda cost: cost.busy)
    added = _added_seconds(now[host], before.get(host, busiest))
    threshold = SHARE * sum(added.values())
    grown = [part for part, seconds in added.items() if seconds > 0 and seconds >= threshold]
    return Growth(
        host,
        tuple(sorted(grown, key=lambda part: -added[part])),
        frozenset(name for name, cost in now.items() if cost.busy >= LATE * now[host].busy),
    )


def _added_seconds(cost: Cost, other: Cost) -> dict[str, float]:
    """Return how many seconds longer each part takes; more computing also means more waiting."""
    before = other.waited / other.computing if other.computing else 0.0
    now = cost.waited / cost.computing if cost.computing else 0.0
    added = {
        "computing": (cost.computing - other.computing) * (1 + before),
        "waited": cost.computing * (now - before),
        "sending": cost.sending - other.sending,
        "idle": cost.idle - other.idle,
    }
    for part in ("waited", "sending"):
        if not _part_grew(cost, part, other):
            added[part] = 0.0
    return {part: max(0.0, seconds) for part, seconds in added.items()}


def _part_grew(current: Cost, part: str, other: Cost) -> bool:
    """Decide whether the part grew, as a share of a step's time."""
    now, before = (getattr(cost, part) / cost.step for cost in (current, other))
    return bool(now - before >= MORE)
