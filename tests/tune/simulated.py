"""A cluster that is a function: profile -> steps per second, with noise; a trial has a cost."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from ipexctl.tune.tune_search import Ask, Search, SearchResult, Trial
from ipexctl.tune.tune_space import Dimension, Profile, SettingChange, TrialRanks

START = 5.0  # seconds before the first step of a trial
SPACE = (
    Dimension(
        "threads", tuple(SettingChange(f"threads {n}", (("T", n),)) for n in ("8", "2", "7"))
    ),
    Dimension("bucket", tuple(SettingChange(f"bucket {n}", (("B", n),)) for n in ("100", "5"))),
    Dimension("allocator", (SettingChange("tcmalloc", (("A", "tcmalloc"),)),)),
)


@dataclass
class Cluster:
    speed: Callable[[dict[str, str | None]], float]
    noise: float = 0.02
    seed: int = 0
    ranks: Callable[[dict[str, object]], int] = lambda options: 4
    asked: list[Ask] = field(default_factory=list)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def trial(self, ask: Ask) -> Trial:
        self.asked.append(ask)
        true = self.speed(ask.profile.env)
        seen = TrialRanks(self.ranks(ask.profile.options), frozenset({"libgomp"}), "default")
        if not true:
            self.seconds += START
            return Trial(ask.profile, ask.part, None, START, seen, ended="failed", why="no")
        rate = true * self.random.gauss(1.0, self.noise)
        stopped = rate * seen.ranks < ask.floor
        took = START + ask.seconds / (4 if stopped else 1)
        self.seconds += took
        ended = "stopped" if stopped else "measured"
        return Trial(ask.profile, ask.part, rate, took, seen, int(rate * took), ended)

    def search(self, budget: float = 360.0, space: tuple[Dimension, ...] = SPACE) -> SearchResult:
        search = Search(lambda seen: space, budget)
        return drive(search, self.trial)


def drive(search: Search, do: Callable[[Ask], Trial], most: int = 1000) -> SearchResult:
    asking = search.run()
    ask = next(asking)
    try:
        for _ in range(most):
            ask = asking.send(do(ask))
    except StopIteration:
        pass
    return search.found()


def planted(**gains: float) -> Callable[[dict[str, str | None]], float]:
    """`T8=1.5`: that value of that variable makes it so much faster."""

    def speed(env: dict[str, str | None]) -> float:
        rate = 10.0
        for name, value in env.items():
            rate *= gains.get(f"{name}{value}", 1.0)
        return rate

    return speed


def labels(profile: Profile) -> set[str]:
    return {change.label for _, change in profile.changes}
