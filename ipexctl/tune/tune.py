"""tune: run trials of a script on its hosts until the fastest settings are known or time is up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Protocol

from ipexctl.base.option import options_of
from ipexctl.common.files import write_atomic
from ipexctl.errors import EXIT_INTERRUPTED, EXIT_OK, IpexctlError, unknown_value
from ipexctl.local.nearest_file import PROJECT_FILE, project_file
from ipexctl.local.run_options import RunOptions
from ipexctl.local.settings import load_settings
from ipexctl.machines.target import Target
from ipexctl.quick_dataclass import dataclass
from ipexctl.run.gather_plan import Planned, gather_run_plan
from ipexctl.run.run_plan import remember_tuned
from ipexctl.run.watch.run_watchers import Interrupts
from ipexctl.tune import settings_edit, tune_space
from ipexctl.tune.trial import Trials
from ipexctl.tune.tune_options import TuneOptions
from ipexctl.tune.tune_search import Ask, Search, SearchResult, Trial
from ipexctl.tune.tune_space import ALLOW, Profile


class TuneListener(Protocol):
    def planned(self, plan: Planned, options: TuneOptions) -> None: ...
    def began(self, ask: Ask) -> None: ...
    def moved(self, text: str) -> None: ...
    def ended(self, trial: Trial, result: SearchResult) -> None: ...


@dataclass(frozen=True)
class Tuned:
    found: SearchResult
    seconds: float
    budget: float
    left_out: tuple[str, ...] = ()
    interrupted: bool = False
    instead: tuple[str, ...] = ()  # options to leave out, as they precede a file

    @property
    def exit_code(self) -> int:
        return EXIT_INTERRUPTED if self.interrupted else EXIT_OK


def tune(
    target: Target,
    options: RunOptions,
    request: TuneOptions,
    listener: TuneListener,
    interrupts: Interrupts,
) -> Tuned:
    """Find the settings. Raises IpexctlError if the run cannot start, or reports no steps."""
    began = time.monotonic()
    for name in request.allow:
        if name not in ALLOW:
            raise unknown_value("--allow", name, ALLOW)
    plan = gather_run_plan(target, options)
    listener.planned(plan, request)
    setup = tune_space.setup_of(
        plan.plan, plan.facts, plan.prepared, options.env, options_of(RunOptions), options.n
    )
    quiet = replace(target, note=lambda text: None)  # `planned` has reported all of it
    search = Search(
        lambda seen: tune_space.search_space(setup, seen, request.allow),
        request.budget,
        spent=time.monotonic() - began,
    )
    trials = Trials(quiet, options, interrupts, listener.moved)

    def do(ask: Ask) -> Trial:
        listener.began(ask)
        limit = request.budget if search.scores else request.budget / 2
        return trials.run(ask, began + limit)

    try:
        interrupted = _run_trials(search, do, listener)
    finally:
        trials.close()
    result = search.found()
    if not interrupted:
        _refuse_unmeasured(result, options, request)
        remember_tuned(plan.plan)
    seen = result.trials[0].seen if result.trials else tune_space.TrialRanks(plan.plan.world_size)
    return Tuned(
        result,
        time.monotonic() - began,
        request.budget,
        tune_space.left_out(setup, seen, request.allow),
        interrupted,
        _overriding_options(result.best, options) if result.wins else (),
    )


def _run_trials(search: Search, run_trial: Callable[[Ask], Trial], listener: TuneListener) -> bool:
    """Run all trials of the search; return True if the user interrupted them."""
    asking = search.run()
    with suppress(StopIteration):
        ask = next(asking)
        while True:
            try:
                trial = run_trial(ask)
            except KeyboardInterrupt:
                return True
            try:
                ask = asking.send(trial)
            finally:
                listener.ended(trial, search.found())
    return False


def _refuse_unmeasured(result: SearchResult, options: RunOptions, request: TuneOptions) -> None:
    """Raise IpexctlError unless the unchanged run was measured twice."""
    if result.noise is not None:
        return
    last = result.trials[-1]
    if last.ended == "failed":
        once = len(result.trials) == 1
        raise IpexctlError(
            f"the script failed in trial {len(result.trials)}, with unchanged settings",
            why=last.why,
            hint="run it first: ipexctl run, with the same options" if once else "tune it again",
            slug="trial-failed",
        )
    if last.ended == "no-steps":
        raise IpexctlError(
            "the script did no optimizer steps",
            why="it ended without a call of step() of an optimizer of torch.optim",
            hint="tune a script that trains; its arguments follow it: ipexctl tune train.py ARGS",
            slug="no-steps",
        )
    if last.ended == "too-short":
        raise IpexctlError(
            f"the script ended after {last.why}, too few to measure",
            hint="let it do more steps, for example with more epochs",
            slug="too-few-steps",
        )
    raise IpexctlError(
        f"the budget of {request.budget:.0f} s is too small: "
        + ("no step was done in time" if not last.steps else f"{last.steps} steps in a trial"),
        why="it must be enough for a few dozen trials, each with the start of the script",
        hint="--budget 30m, or a smaller model or dataset that loads faster",
        slug="budget-too-small",
    )


def _overriding_options(best: Profile, options: RunOptions) -> tuple[str, ...]:
    """Return options that were typed and take precedence over ipexctl.toml."""
    settings = load_settings()
    configured = settings["run.env"].value if "run.env" in settings else {}
    overriding = [
        f"--env {name}"
        for name in best.env
        if name in options.env and options.env[name] != configured.get(name)
    ]
    defaults = {field.name: field.default for field in fields(options)}
    for name in best.options:
        typed = getattr(options, name)
        setting = settings.get(f"run.{name}")
        if typed != defaults[name] and (setting is None or typed != setting.value):
            overriding.append(f"--{name}" if name != "n" else "-n")
    return tuple(overriding)


@dataclass(frozen=True)
class Writing:
    """The new content of the settings file."""

    path: Path
    text: str
    lines: str  # the lines that change
    mode: int | None


def settings_to_write(result: SearchResult) -> Writing | None:
    """Return the new file; None if the best profile needs nothing in it. Raises InputError."""
    path = project_file(Path.cwd()) or Path.cwd() / PROJECT_FILE
    setting = load_settings().get("run.env")
    configured: Mapping[str, str] = setting.value if setting else {}
    changes = {
        name: value
        for name, value in result.best.env.items()
        if value is not None or name in configured
    }
    exists = path.exists()
    if changes and setting and not setting.project:  # the user's own file: a project's precedes it
        changes = {**configured, **changes}
        changes = {name: value for name, value in changes.items() if value is not None}
    if not changes and not result.best.options:
        return None
    text = path.read_text("utf-8") if exists else ""
    new = settings_edit.edit_settings(text, changes, result.best.options, _gain_comments(result))
    mode = path.stat().st_mode & 0o777 if exists else None
    return Writing(path, new, settings_edit.new_settings_lines(changes, result.best.options), mode)


def _gain_comments(result: SearchResult) -> dict[str, str]:
    """Return comments; the gain was measured for all settings together, not for a single line."""
    env = {name: name if value else f"without {name}" for name, value in result.best.env.items()}
    names = {**env, **{name: name for name in result.best.options}}
    gain = f"ipexctl tune: {1 + (result.gain or 0):.2f}x"
    together = {name: [other for n, other in names.items() if n != name] for name in names}
    return {n: f"{gain} with {', '.join(o)}" if o else gain for n, o in together.items()}


def write_settings(writing: Writing) -> None:
    write_atomic(writing.path, writing.text, mode=writing.mode)
