"""Choose the next trial, and evaluate all of them. No clock and no I/O: it is given their costs.

First trials of the unchanged run: the difference of their rates is the noise. Then one dimension
after the other; a candidate is kept if it beats the best by more than the noise. At the end the
unchanged run and the best take turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import field

from ipexctl.quick_dataclass import dataclass
from ipexctl.tune.tune_space import Dimension, Profile, SettingChange, TrialRanks

NOISE, FINAL = "noise", "final"  # parts of a search; the others are dimensions
SAME = 3  # trials of the unchanged run
ROUNDS = 3
LEAST_NOISE = 0.01  # smallest noise to assume
OF_RANGE = 1.5  # factor: a few trials show less than the full noise
FAR = 0.05  # this far below the best, beyond twice the noise, it cannot win any more
MEASURE = (2.0, 8.0)  # seconds of a trial
STEPS = 20  # of a trial with slow steps
BASELINE = Profile()
# Student's t: 95 % of all values are within; by degrees of freedom
T95 = (12.7, 4.3, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)


@dataclass(frozen=True)
class Ask:
    """A trial to do. `floor`: the score below which it may end early."""

    profile: Profile
    part: str
    seconds: float
    floor: float = 0.0


@dataclass(frozen=True)
class Trial:
    """`rate` None: it made no steps; `why` says how it ended."""

    profile: Profile
    part: str
    rate: float | None  # steps per second
    seconds: float  # total duration
    seen: TrialRanks
    steps: int = 0
    ended: str = "measured"  # stopped: early. failed, no-steps, too-short, out-of-time
    why: str = ""

    @property
    def score(self) -> float | None:
        """The rate times the number of ranks: with more ranks, a step takes more samples."""
        return None if self.rate is None else self.rate * self.seen.ranks


@dataclass(frozen=True)
class SearchResult:
    """`gain` None: the best is the unchanged run, or was not compared with it."""

    trials: tuple[Trial, ...]
    noise: float | None
    best: Profile
    gain: float | None = None  # 0.25: 25 % more steps (of the same size) per second
    spread: float = 0.0  # another pair of runs is within gain +- spread, 19 times out of 20
    rounds: int = 0
    offers: tuple[tuple[SettingChange, float], ...] = ()  # what was faster, but needs --allow
    untried: tuple[str, ...] = ()  # for lack of time

    @property
    def wins(self) -> bool:
        return self.gain is not None and self.gain > self.least

    @property
    def tried(self) -> bool:
        return any(trial.profile != BASELINE for trial in self.trials)

    @property
    def least(self) -> float:
        """The gain that exceeds the noise; for a single round twice as much is needed. The mean of
        all rounds is known more precisely than the result of another pair of runs."""
        noise = self.noise or 0.0
        mean = self.spread / math.sqrt(self.rounds + 1)
        return max(noise * (2 if self.rounds == 1 else 1), mean)


Space = Callable[[TrialRanks], Sequence[Dimension]]
Asking = Generator[Ask, Trial, None]


@dataclass
class Search:
    """`run` yields the trials to do and is sent each of them; `found` is the result so far."""

    space: Space
    budget: float  # seconds
    spent: float = 0.0
    trials: list[Trial] = field(default_factory=list)
    scores: dict[Profile, list[float]] = field(default_factory=dict)
    noise: float | None = None
    best: Profile = BASELINE
    rounds: list[tuple[float, float]] = field(default_factory=list)  # scores: before, after
    offers: list[tuple[SettingChange, float]] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)

    def run(self) -> Asking:
        for _ in range(SAME):
            if len(self.trials) < 2 or self._has_time_left():
                yield from self._run_trial(BASELINE, NOISE)
            if self.trials[-1].score is None:
                return
        scores = self.scores[BASELINE]
        self.noise = max(LEAST_NOISE, OF_RANGE * (max(scores) - min(scores)) / _mean(scores))
        for dimension in self.space(self.trials[0].seen):
            yield from self._search_dimension(dimension)
        if self.best != BASELINE:
            yield from self._compare_best()

    def found(self) -> SearchResult:
        count = len(self.rounds)
        ratio = _mean([after / before for before, after in self.rounds]) if count else None
        return SearchResult(
            tuple(self.trials),
            self.noise,
            self.best,
            ratio - 1 if ratio else None,
            ratio * self._estimate_spread() if ratio else 0.0,
            count,
            tuple(self.offers),
            tuple(self.untried),
        )

    def _estimate_spread(self) -> float:
        """Return how much runs of the same settings differ in this search, including runs that are
        minutes apart. Trials that chose the best are left out: they were lucky."""
        score_lists = [self.scores[BASELINE], [after for _, after in self.rounds]]
        freedom = sum(len(scores) - 1 for scores in score_lists)
        squares = (((score / _mean(scores)) - 1) ** 2 for scores in score_lists for score in scores)
        deviation = math.sqrt(math.fsum(squares) / freedom)
        width = T95[min(freedom, len(T95)) - 1] * math.sqrt(2 + 2 / len(self.rounds))
        return max(LEAST_NOISE, width * deviation)

    def _search_dimension(self, dimension: Dimension) -> Asking:
        """Try the candidates of one dimension, and keep those that exceed the noise."""
        for change in dimension.candidates:
            profile, best = self.best.replaced(dimension.name, change), self._best_score()
            if not self._has_time_left():
                self.untried += [] if dimension.offered else [change.label]
                continue
            floor = best * (1 - 2 * self._assumed_noise() - FAR)
            trial = yield from self._run_trial(profile, dimension.name, floor)
            gain = self._gain_of(profile, trial, best)
            close = self._assumed_noise() < gain < 3 * self._assumed_noise()
            if close and self._has_time_left():  # measure again
                trial = yield from self._run_trial(profile, dimension.name, floor)
                gain = self._gain_of(profile, trial, best)
            if gain > self._assumed_noise() and dimension.offered:
                self.offers.append((change, gain))
            elif gain > self._assumed_noise():
                self.best = profile
                if dimension.first_wins:
                    return

    def _compare_best(self) -> Asking:
        """Measure the best profile and the baseline in turns."""
        for number in range(ROUNDS):
            turns = (BASELINE, self.best) if number % 2 == 0 else (self.best, BASELINE)
            if self.spent + len(turns) * self._estimate_cost() > self.budget:
                return
            scores = {}
            for profile in turns:
                trial = yield from self._run_trial(profile, FINAL)
                scores[profile] = trial.score
            before, after = scores[BASELINE], scores[self.best]
            if before and after is not None:
                self.rounds.append((before, after))

    def _run_trial(
        self, profile: Profile, part: str, floor: float = 0.0
    ) -> Generator[Ask, Trial, Trial]:
        trial = yield Ask(profile, part, self._trial_seconds(), floor)
        self.trials.append(trial)
        self.spent += trial.seconds
        if trial.score is not None:
            self.scores.setdefault(profile, []).append(trial.score)
        return trial

    def _gain_of(self, profile: Profile, trial: Trial, best: float) -> float:
        if trial.score is None or trial.ended != "measured":
            return -math.inf
        return _mean(self.scores[profile]) / best - 1

    def _best_score(self) -> float:
        return _mean(self.scores[self.best])

    def _assumed_noise(self) -> float:
        return LEAST_NOISE if self.noise is None else self.noise

    def _trial_seconds(self) -> float:
        """Return the seconds to measure, so that a few dozen trials fit the budget."""
        least, most = MEASURE
        usual = min(most, max(least, self.budget / 45))
        rate = next((trial.rate for trial in self.trials if trial.rate), None)
        seconds = usual if rate is None else max(usual, STEPS / rate)
        return min(seconds, max(usual, self.budget / 15))

    def _estimate_cost(self) -> float:
        """Estimate the cost of one trial; one that ended early says nothing about the next."""
        full = [trial.seconds for trial in self.trials if trial.ended == "measured"]
        return _mean(full) if full else self._trial_seconds()

    def _has_time_left(self) -> bool:
        """Decide whether there is time for one more trial, and for the turns at the end."""
        cost = self._estimate_cost()
        rounds = min(ROUNDS, max(1, int(self.budget / cost / 5)))
        return self.spent + (1 + 2 * rounds) * cost <= self.budget


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
