"""Where the time of a step goes on each host, and which part of it another run has less of."""

from __future__ import annotations

from math import log, sqrt

from ipexctl.quick_dataclass import dataclass
from ipexctl.report.recorded_inputs import RunRecord

LEAST_CHANGE = 0.05  # of the speed: less is no difference
FEW = 3.0  # windows: the spread of so few is twice as wide as it looks
LATE = 0.9  # times as busy as the busiest host: the others may wait for it, too
MORE = 0.1  # of a step's time: waiting for a CPU, or an exchange, that grew by less did not grow
SHARE = 0.2  # of the longer time of a step: a part with less of it is not listed


@dataclass(frozen=True)
class Cost:
    """Seconds of one step, the mean of a host's ranks. `waited`: threads could run and had no CPU.
    `idle`: none of the others, as for a host that is late, a disk, or sleep."""

    computing: float
    waited: float
    sending: float
    idle: float

    @property
    def step(self) -> float:
        return self.computing + self.waited + self.sending + self.idle

    @property
    def busy(self) -> float:
        """What the other hosts wait for."""
        return self.computing + self.waited


@dataclass(frozen=True)
class Growth:
    """What makes one run's steps longer than another's, on the host that the others wait for."""

    host: str
    parts: tuple[str, ...]  # of a step there that take longer, the longest first
    late: frozenset[str]  # hosts that the others may wait for; `host` is one of them


def change(a: RunRecord, b: RunRecord) -> tuple[float, float] | None:
    """By which factor a is faster, and which one is noise; None: the speed of one is not known."""
    if a.speed is None or b.speed is None:
        return None
    spreads = (one.spread * (1 + FEW / one.windows) for one in (a.speed, b.speed))
    noise = max(LEAST_CHANGE, sqrt(sum(spread**2 for spread in spreads)))
    return a.speed.rate / b.speed.rate, 1 + noise


def is_noise(factor: float, noise: float) -> bool:
    return abs(log(factor)) <= log(noise)


def costs(run: RunRecord) -> dict[str, Cost]:
    found = {}
    for host, pace in run.paces.items():
        if not pace.ranks or not run.speed:
            continue
        step, count = 1 / run.speed.rate, len(pace.ranks)
        cpus = sum(rank.cpus for rank in pace.ranks) / count
        computing = min(1.0, cpus / (run.threads(host) or 1))
        waited = min(1 - computing, sum(rank.waited or 0.0 for rank in pace.ranks) / count)
        left = 1 - computing - waited
        sending = min(left, sum(rank.sending or 0.0 for rank in pace.ranks) / count)
        found[host] = Cost(computing * step, waited * step, sending * step, (left - sending) * step)
    return found


def growth(slow: RunRecord, fast: RunRecord) -> Growth | None:
    """None: what the ranks did is not known of both runs."""
    now, before = costs(slow), costs(fast)
    if not now or not before:
        return None
    host = max(now, key=lambda name: now[name].busy)
    busiest = max(before.values(), key=lambda cost: cost.busy)
    more = _more(now[host], before.get(host, busiest))
    least = SHARE * sum(more.values())
    parts = [part for part, seconds in more.items() if seconds > 0 and seconds >= least]
    return Growth(
        host,
        tuple(sorted(parts, key=lambda part: -more[part])),
        frozenset(name for name, cost in now.items() if cost.busy >= LATE * now[host].busy),
    )


def _more(one: Cost, other: Cost) -> dict[str, float]:
    """Seconds. Who computes more waits more, on a host that is as busy as before."""
    before = other.waited / other.computing if other.computing else 0.0
    now = one.waited / one.computing if one.computing else 0.0
    found = {
        "computing": (one.computing - other.computing) * (1 + before),
        "waited": one.computing * (now - before),
        "sending": one.sending - other.sending,
        "idle": one.idle - other.idle,
    }
    for part in ("waited", "sending"):
        if not _grew(one, part, other):
            found[part] = 0.0
    return {part: max(0.0, seconds) for part, seconds in found.items()}


def _grew(one: Cost, part: str, other: Cost) -> bool:
    """As a share of a step's time."""
    now, before = (getattr(cost, part) / cost.step for cost in (one, other))
    return bool(now - before >= MORE)
