"""One trial: a run of the script that ends as soon as enough of its steps are measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ipexctl.base.option import Seconds
from ipexctl.errors import IpexctlError
from ipexctl.machines.target import Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.outcome import RunResult, Tally
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.run.plan.run_options import RunOptions
from ipexctl.run.run import run
from ipexctl.run.watch.run_watchers import Interrupts
from ipexctl.tune.step_rate import LEAST, Rates
from ipexctl.tune.tune_search import NOISE, Ask, Trial

TEARDOWN = 3.0  # seconds to end a run: kept free at the end of the budget
BY = "the end of the trial"


@dataclass
class TrialView:
    """The `View` of a trial: it reads what the ranks report, and ends the run."""

    ask: Ask
    deadline: float  # by time.monotonic
    interrupts: Interrupts
    tick_seen: Callable[[str], None] = lambda text: None
    lossy: bool = False
    as_data: bool = True  # no line is left out

    def __post_init__(self) -> None:
        self.rates = Rates()
        self.ended = ""  # why this view has ended the run
        self.hits = self.interrupts.hits

    def note(self, text: str) -> None:
        pass

    def planned(self, run_id: str, plan: LaunchPlan) -> None:
        self.rates.ranks = plan.world_size

    def lines(self, host: str, rank: int, texts: Sequence[str]) -> None:
        reports = [text for text in texts if self.rates.read(rank, text)]
        if reports:
            self._look()

    def bar(self, host: str, rank: int, text: str) -> None:
        pass

    def dropped(self, lines: int) -> None:
        pass

    def tick(self, tally: Tally) -> None:
        self._look()
        steps = self.rates.steps
        self.tick_seen(f"{steps:,} steps" if steps else f"{tally.alive} of {tally.ranks} ranks up")

    def failed(self, rank: int) -> None:
        pass

    def result(self, result: RunResult) -> None:
        pass

    def close(self) -> None:
        pass

    def _look(self) -> None:
        if self.ended:
            return
        if self.interrupts.hits > self.hits:
            self._end("interrupted")
        elif self.rates.is_enough(self.ask.seconds):
            self._end("measured")
        elif self.rates.is_hopeless(self.ask.seconds, self.ask.floor):
            self._end("stopped")
        elif time.monotonic() > self.deadline:
            self._end("out-of-time")

    def _end(self, why: str) -> None:
        """As two Ctrl-C do: the hub kills the ranks at once."""
        self.ended = why
        self.interrupts.last = BY
        self.interrupts.count += 2


def trial(
    target: Target, options: RunOptions, ask: Ask, deadline: float, interrupts: Interrupts,
    seen: Callable[[str], None],
) -> Trial:  # fmt: skip
    """Raises KeyboardInterrupt after Ctrl-C. A run that fails is a trial without a rate."""
    began = time.monotonic()
    view = TrialView(ask, deadline - TEARDOWN, interrupts, seen)
    interrupts.count = 0
    ended, why = "", ""
    try:
        result = run(target, of_trial(options, ask), view, interrupts)
    except IpexctlError as e:
        if ask.part == NOISE:
            raise  # the user's own run does not start
        result, ended, why = None, "failed", e.what
    if interrupts.hits > view.hits:
        raise KeyboardInterrupt
    rates = view.rates
    if isinstance(result, RunResult) and not view.ended:
        rates.end()
        ended, why = _own_end(result, rates)
    ended = ended or view.ended
    steps, _ = rates.measured
    if ended == "out-of-time" and steps >= LEAST:
        ended = "measured"
    counts = ended in ("measured", "stopped")
    return Trial(
        ask.profile, ask.part, rates.rate if counts else None, time.monotonic() - began,
        rates.seen, rates.steps, ended, why,
    )  # fmt: skip


def of_trial(options: RunOptions, ask: Ask) -> RunOptions:
    """The user's run with the profile in it, of which nothing is kept."""
    return replace(
        options,
        **ask.profile.options,
        env=ask.profile.applied_to(options.env),
        trial=True,
        no_inspect=True,
        stall=Seconds(0),
        detach=False,
        lives_on=False,
        fetch=(),
        outputs=(),
        name="",
    )


def _own_end(result: RunResult, rates: Rates) -> tuple[str, str]:
    """The script ended before the trial did."""
    if result.exit_code:
        last = next((text for text in reversed(result.last_words) if text.strip()), "")
        return "failed", last or result.cause or f"exit code {result.exit_code}"
    if rates.measured[0] >= LEAST:
        return "measured", ""
    return ("too-short", f"{rates.steps} steps") if rates.steps else ("no-steps", "")
