"""Trials: runs of the script that end as soon as enough of their steps are measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from ipexctl.base.option import Seconds
from ipexctl.errors import IpexctlError
from ipexctl.inventory.inventory import Host
from ipexctl.local.run_options import RunOptions
from ipexctl.machines.fleet import Fleet, start_in_thread
from ipexctl.machines.target import Target
from ipexctl.project import send_agreed
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.outcome.run_result import RunResult, Tally
from ipexctl.run.plan.launch import LaunchPlan
from ipexctl.run.run import start_and_follow_run
from ipexctl.run.watch.run_watchers import Interrupts, View
from ipexctl.tune.step_rate import LEAST, Rates
from ipexctl.tune.tune_search import NOISE, Ask, Trial

TEARDOWN = 3.0  # seconds to end a run, reserved at the end of the budget
BY = "the end of the trial"


@dataclass
class TrialView(View):
    """The `View` of a trial: it reads the ranks' reports, and ends the run."""

    ask: Ask
    deadline: float  # by time.monotonic
    interrupts: Interrupts
    tick_seen: Callable[[str], None] = lambda text: None
    as_data = True  # no line is left out

    def __post_init__(self) -> None:
        self.rates = Rates()
        self.run_id = ""
        self.ended = ""  # why this view has ended the run
        self.hits = self.interrupts.hits

    def planned(self, run_id: str, plan: LaunchPlan) -> None:
        self.run_id, self.rates.ranks = run_id, plan.world_size

    def lines(self, host: str, rank: int, texts: Sequence[str]) -> None:
        reports = [text for text in texts if self.rates.read(rank, text)]
        if reports:
            self._end_if_decided()

    def tick(self, tally: Tally) -> None:
        self._end_if_decided()
        steps = self.rates.steps
        self.tick_seen(f"{steps:,} steps" if steps else f"{tally.alive} of {tally.ranks} ranks up")

    def _end_if_decided(self) -> None:
        if self.ended:
            return
        if self.interrupts.hits > self.hits:
            self._end_run("interrupted")
        elif self.rates.is_enough(self.ask.seconds):
            self._end_run("measured")
        elif self.rates.is_hopeless(self.ask.seconds, self.ask.floor):
            self._end_run("stopped")
        elif time.monotonic() > self.deadline:
            self._end_run("out-of-time")

    def _end_run(self, why: str) -> None:
        """End the run as two Ctrl-C do: the hub kills the ranks at once."""
        self.ended = why
        self.interrupts.last = BY
        self.interrupts.count += 2


@dataclass
class Trials:
    """Runs trials, and removes each from its hosts while the next one starts."""

    target: Target
    options: RunOptions
    interrupts: Interrupts
    moved: Callable[[str], None]  # gets the progress of the trial

    def __post_init__(self) -> None:
        self.removed: Callable[[], object] = lambda: None

    def run(self, ask: Ask, deadline: float) -> Trial:
        """Run a trial. Raises KeyboardInterrupt after Ctrl-C, and IpexctlError if the unchanged run
        does not start; a candidate that fails gives a trial without a rate."""
        began = time.monotonic()
        limit = deadline - TEARDOWN
        view = TrialView(ask, limit, self.interrupts, self.moved)
        self.interrupts.count = 0
        result, ended, why = None, "", ""
        try:
            result = start_and_follow_run(
                self.target, of_trial(self.options, ask), view, self.interrupts
            )
        except IpexctlError as e:
            if ask.part == NOISE:
                raise
            ended, why = "failed", e.what
        finally:
            self._remove_later(view.run_id)
        if self.interrupts.hits > view.hits:
            raise KeyboardInterrupt
        self.options = replace(self.options, confirm=send_agreed.answer_yes)  # asked once
        if isinstance(result, RunResult) and not view.ended:
            view.rates.end()
            ended, why = _own_end(result, view.rates)
        if isinstance(result, RunResult) and result.warnings and "compress" in ask.profile.options:
            ended, why = "failed", result.warnings[0]  # it loses gradients
        return _trial_result(view, ended or view.ended, why, time.monotonic() - began)

    def close(self) -> None:
        with suppress(KeyboardInterrupt):
            self.removed()

    def _remove_later(self, run_id: str) -> None:
        if run_id:
            self.close()
            self.removed = start_in_thread(
                lambda: _remove_run(self.target, self.options.root, run_id)
            )


def _remove_run(target: Target, root: str, run_id: str) -> None:
    """Remove a run once its agents, which hold its folder, ended; prune removes what fails."""
    with suppress(IpexctlError, OSError), Fleet(target, root) as fleet:

        def one(host: Host) -> None:
            fleet.connect(host)
            fleet.call(host, "remove.prune_rules.remove_run", run_id=run_id)

        fleet.map_hosts(one)


def _trial_result(view: TrialView, ended: str, why: str, seconds: float) -> Trial:
    rates, ask = view.rates, view.ask
    if ended == "out-of-time" and rates.measured[0] >= LEAST:
        ended = "measured"
    rate = rates.rate if ended in ("measured", "stopped") else None
    return Trial(ask.profile, ask.part, rate, seconds, rates.seen, rates.steps, ended, why)


def of_trial(options: RunOptions, ask: Ask) -> RunOptions:
    """Return the user's run with the profile applied; nothing of it is kept."""
    return replace(
        options,
        **ask.profile.options,
        env=ask.profile.applied_to(options.env),
        trial=True,
        no_inspect=True,
        stall=Seconds(0),
        detach=False,
        lives_on=False,
        restarts=0,
        spares=(),
        fetch=(),
        outputs=(),
        name="",
    )


def _own_end(result: RunResult, rates: Rates) -> tuple[str, str]:
    """Return the outcome of a script that ended before its trial did."""
    if result.exit_code:
        last = next((text for text in reversed(result.last_words) if text.strip()), "")
        return "failed", last or result.cause or f"exit code {result.exit_code}"
    if rates.measured[0] >= LEAST:
        return "measured", ""
    return ("too-short", f"{rates.steps} steps") if rates.steps else ("no-steps", "")
