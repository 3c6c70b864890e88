"""Convert lines of ipexctl/in_ranks/step_meter.py to steps per second, without warm-up."""

from __future__ import annotations

import json
from dataclasses import field

from ipexctl.quick_dataclass import dataclass
from ipexctl.tune.tune_space import TrialRanks

MARK = "ipexctl-steps "
WARM_STEPS, WARM_SECONDS = 3, 1.0  # caches fill, DDP rebuilds its buckets, threads start
LEAST = 8  # steps needed for a rate
PATIENCE = 4  # times the wanted seconds, for slow steps


@dataclass
class Steps:
    """The steps of one process of a rank."""

    first: tuple[int, float]
    warm: tuple[int, float] | None = None  # where measuring begins
    last: tuple[int, float] = (0, 0.0)

    def add(self, steps: int, moment: float) -> None:
        self.last = (steps, moment)
        if not self.warm and steps >= WARM_STEPS and moment - self.first[1] >= WARM_SECONDS:
            self.warm = self.last

    @property
    def measured(self) -> tuple[int, float]:
        """The steps, and the seconds that they took."""
        if self.warm is None:
            return 0, 0.0
        return self.last[0] - self.warm[0], self.last[1] - self.warm[1]


@dataclass
class Rates:
    """The rates of all ranks of a trial, by the ranks' own clocks."""

    ranks: int = 0
    found: dict[tuple[int, int], Steps] = field(default_factory=dict)  # rank, process
    libraries: set[str] = field(default_factory=set)
    ddp: set[str] = field(default_factory=set)

    def read(self, rank: int, line: str) -> bool:
        """Read a report of a rank; return False for any other line."""
        if not line.startswith(MARK):
            return False
        try:
            report = json.loads(line[len(MARK) :])
            steps, time, key = int(report["steps"]), float(report["at"]), (rank, int(report["pid"]))
            self.ddp |= set(map(str, report.get("ddp", ())))
            self.libraries |= set(map(str, report.get("libraries", ())))
        except (ValueError, TypeError, KeyError, AttributeError):
            return False  # two processes have written at the same time
        self.found.setdefault(key, Steps((steps, time))).add(steps, time)
        return True

    @property
    def seen(self) -> TrialRanks:
        ddp = next((owner for owner in ("default", "script") if owner in self.ddp), "")
        return TrialRanks(self.ranks, frozenset(self.libraries), ddp)

    @property
    def steps(self) -> int:
        """The number of steps that every rank has done, warm-up included."""
        return min((process.last[0] for process in self._main_processes()), default=0)

    @property
    def measured(self) -> tuple[int, float]:
        """The steps and seconds of the rank with the fewest measured steps."""
        return min((process.measured for process in self._main_processes()), default=(0, 0.0))

    @property
    def rate(self) -> float | None:
        """The steps per second of the slowest rank; None before there are any."""
        rates = [
            n / seconds
            for n, seconds in (o.measured for o in self._main_processes())
            if seconds > 0
        ]
        return min(rates, default=None)

    def is_enough(self, seconds: float) -> bool:
        steps, spent = self.measured
        return (steps >= LEAST and spent >= seconds) or (steps >= 2 and spent >= PATIENCE * seconds)

    def is_hopeless(self, seconds: float, floor: float) -> bool:
        """Decide after a quarter; `floor` is the smallest rate x ranks that can still win."""
        steps, spent = self.measured
        rate = self.rate
        early = steps >= LEAST // 2 and spent >= seconds / 4
        slow = steps >= 1 and spent >= seconds  # too slow to finish its steps
        return (early or slow) and rate is not None and rate * self.ranks < floor

    def end(self) -> None:
        """Measure from the first step on where warm-up left too few steps of an ended script."""
        for process in self.found.values():
            if process.measured[0] < LEAST and process.last[0] - process.first[0] >= LEAST:
                process.warm = process.first

    def _main_processes(self) -> list[Steps]:
        """Return one process of each rank: the one with the most steps."""
        best: dict[int, Steps] = {}
        for (rank, _), process in self.found.items():
            if rank not in best or process.last[0] > best[rank].last[0]:
                best[rank] = process
        return [*best.values()]
