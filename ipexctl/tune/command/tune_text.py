"""What `tune` shows: a line for each trial, the gain, and the settings to write."""

from __future__ import annotations

import sys
from typing import Any

from rich.text import Text

from ipexctl.base.sizes import duration
from ipexctl.errors import printable_text
from ipexctl.inventory.hostfile_text import fold
from ipexctl.local.nearest_file import short_path
from ipexctl.run.gather_plan import Planned
from ipexctl.terminal.confirm import confirm
from ipexctl.terminal.console import print_lines, stderr_console, stdout_console
from ipexctl.terminal.live_lines import LiveLines
from ipexctl.tune.tune import Tuned, Writing
from ipexctl.tune.tune_options import TuneOptions
from ipexctl.tune.tune_search import BASELINE, FINAL, NOISE, Ask, SearchResult, Trial
from ipexctl.tune.tune_space import Profile

WIDE = 36
_ENDED = {
    "stopped": "stopped early",
    "failed": "failed",
    "no-steps": "no steps",
    "too-short": "too few steps",
    "out-of-time": "out of time",
}


class Screen:
    """The Listener of `tune`. With --json all of it is on stderr."""

    def __init__(self, *, as_json: bool) -> None:
        self.console = stderr_console() if as_json else stdout_console()
        self.live = LiveLines(self.console, lambda: self.line)
        self.line = Text()
        self.number = 0
        self.now = ""

    def planned(self, plan: Planned, options: TuneOptions) -> None:
        ranks, hosts = plan.plan.world_size, fold([host.host for host in plan.plan.hosts])
        self._print_line(
            f"tune {plan.plan.argv[0]}: {ranks} rank{'s' * (ranks != 1)} on {hosts}, "
            f"for at most {duration(options.budget)}"
        )
        self._print_line(f"{'':3}  {'trial':{WIDE}}  {'steps/s':>9}  {'change':>8}  {'took':>7}")

    def began(self, ask: Ask) -> None:
        self.now = _trial_label(ask)

    def moved(self, text: str) -> None:
        line = f"{self.number + 1:3}  {self.now:{WIDE}}  {text}"
        self.line = Text(line, "dim", no_wrap=True, overflow="ellipsis")
        self.live.draw()

    def ended(self, trial: Trial, result: SearchResult) -> None:
        self.number += 1
        self.live.stop()
        self._print_line(trial_line(self.number, trial, result))
        if trial.part == NOISE and result.noise is not None:
            self._print_line(f"{'':3}  noise: {result.noise:.1%}")

    def show(self, tuned: Tuned) -> None:
        print_lines(self.console, map(Text, ["", *outcome_lines(tuned)]))

    def _print_line(self, text: str) -> None:
        print_lines(self.console, [Text(text)])


def trial_line(number: int, trial: Trial, result: SearchResult) -> str:
    rate = "" if trial.rate is None else _rate_text(trial.rate)
    change = _change_text(trial, result) if trial.profile != BASELINE else ""
    elapsed = f"{trial.seconds:.0f} s"
    outcome = _ENDED.get(trial.ended, "")
    if trial.profile == result.best != BASELINE and trial.part != FINAL:
        outcome = "best"
    label = _trial_label(trial)
    line = f"{number:3}  {label:{WIDE}}  {rate:>9}  {change:>8}  {elapsed:>7}  {outcome}".rstrip()
    why = f"\n{'':5}{printable_text(trial.why)[:74]}" if trial.why and trial.rate is None else ""
    return line + why


def outcome_lines(tuned: Tuned) -> list[str]:
    result = tuned.found
    lines = []
    if tuned.interrupted:
        lines.append("interrupted; nothing is written")
    elif result.wins:
        lines.append(f"{1 + (result.gain or 0):.2f}x as fast: {_gain_text(result)}")
        lines += [f"  {change.label}" for _, change in result.best.changes]
        if len(result.best.changes) > 1:
            lines.append("  (measured together)")
    elif result.gain is not None:
        lines.append(
            f"nothing to gain here: {result.best} is {_gain_text(result)}, which may be noise"
        )
    elif result.best != BASELINE:
        lines.append("no time was left to compare the best with the baseline: --budget 15m")
    elif result.untried and not result.tried:
        cost = duration(result.trials[0].seconds)
        lines.append(f"no time was left for other settings: a trial takes {cost} (--budget 15m)")
    else:
        noise = f" by more than the noise of {result.noise:.1%}" if result.noise else ""
        lines.append(f"nothing to gain here: no setting was faster{noise}")
    lines += [
        f"{change.label} was {1 + gain:.2f}x as fast in a trial, and rounds gradients: to use it, "
        "tune with --allow numerics"
        for change, gain in result.offers
    ]
    if tuned.instead:
        lines.append(
            f"leave out {' and '.join(tuned.instead)}: the command line goes before ipexctl.toml"
        )
    if result.untried:
        lines.append(f"not tried for want of time: {', '.join(result.untried)} (--budget TIME)")
    lines += [f"not tried: {text}" for text in tuned.left_out]
    return [*lines, f"took {duration(tuned.seconds)}"]


def offer_settings(writing: Writing, *, yes: bool, as_json: bool) -> bool:
    """Show the settings to write, and ask. Without a terminal only -y writes them."""
    out = sys.stderr if as_json else sys.stdout
    name = short_path(writing.path)
    print(f"\n{name}:", *(f"  {line}" for line in writing.lines.splitlines()), sep="\n", file=out)
    if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        print("not written: put these lines into it, or use -y", file=out)
        return False
    agreed = yes or confirm(f"Write this to {name}? [Y/n] ", sys.stdin, out=out)
    print("written; `ipexctl run` uses it from now on" if agreed else "not written", file=out)
    return agreed


def tune_document(tuned: Tuned, writing: Writing | None, *, written: bool) -> dict[str, Any]:
    result = tuned.found
    return {
        "command": "tune",
        "wins": result.wins,
        "gain": result.gain,
        "spread": result.spread,
        "noise": result.noise,
        "rounds": result.rounds,
        "profile": _profile_document(result.best) if result.wins else None,
        "trials": [_trial_document(trial) for trial in result.trials],
        "offers": [{"label": change.label, "gain": gain} for change, gain in result.offers],
        "untried": list(result.untried),
        "not_tried": list(tuned.left_out),
        "leave_out": list(tuned.instead),
        "interrupted": tuned.interrupted,
        "seconds": round(tuned.seconds, 3),
        "budget": tuned.budget,
        "file": str(writing.path) if writing else None,
        "written": written,
        "exit_code": tuned.exit_code,
    }


def _trial_document(trial: Trial) -> dict[str, Any]:
    return {
        "profile": _profile_document(trial.profile),
        "label": str(trial.profile),
        "part": trial.part,
        "steps_per_second": trial.rate,
        "steps": trial.steps,
        "seconds": round(trial.seconds, 3),
        "ended": trial.ended,
        "why": trial.why or None,
        "ranks": trial.seen.ranks,
        "libraries": sorted(trial.seen.libraries),
        "ddp": trial.seen.ddp or None,
    }


def _profile_document(profile: Profile) -> dict[str, Any]:
    return {"env": profile.env, "options": profile.options}


def _gain_text(result: SearchResult) -> str:
    rounds = f"{result.rounds} round{'s' * (result.rounds != 1)}"
    return f"{result.gain or 0:+.1%} ± {result.spread:.1%} steps/s in {rounds}"


def _change_text(trial: Trial, result: SearchResult) -> str:
    """Compare with the baseline, in steps of the same size."""
    baselines = [
        other.score for other in result.trials if other.profile == BASELINE and other.score
    ]
    if trial.score is None or not baselines:
        return ""
    return f"{trial.score / (sum(baselines) / len(baselines)) - 1:+.0%}"


def _rate_text(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 1000 else f"{rate:.3g}"


def _trial_label(trial: Trial | Ask) -> str:
    """Return what the trial changes; `+`: in addition to the best so far."""
    changes = dict(trial.profile.changes)
    change = changes.get(trial.part)
    if trial.part == FINAL and changes:
        return "best"
    label = f"{'+ ' * (len(changes) > 1)}{change.label}" if change else str(trial.profile)
    return label if len(label) <= WIDE else f"{label[: WIDE - 2]}.."
