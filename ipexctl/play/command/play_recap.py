"""Output after a play: the recap, its JSON document, and the list of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from ipexctl.base.sizes import duration
from ipexctl.play.command.play_screen import COLOURS
from ipexctl.play.text.play_options import PlayOptions
from ipexctl.play.text.play_outcome import PlayReport, State, StepOutcome
from ipexctl.play.text.play_values import Play, chosen_steps
from ipexctl.terminal.console import print_lines, print_text


def show_recap(report: PlayReport, console: Console, again: str = "") -> None:
    """Print the recap. `again`: the command as it was typed."""
    width = max(map(len, report.hosts))
    for host in report.hosts:
        counts = report.counts(host)
        line = Text(f"{host:<{width}}  ")
        for state in _recap_columns(report):
            n = counts[state]
            line += Text(f"{state.value}={n:<4}", COLOURS[state] if n else "dim")
        line.rstrip()
        if not counts:
            line += Text("  not started", "dim")
        print_lines(console, [line])
    print_text(console, _last_line(report))
    if report.failures and again and not report.check:
        what = "skips completed sh and run steps"
        print_text(console, f"after the fix: {again} --resume   # {what}")


def _recap_columns(report: PlayReport) -> list[State]:
    changes = [State.WOULD_CHANGE, State.UNKNOWN] if report.check else [State.CHANGED]
    ignored = [State.IGNORED] if any(report.counts(h)[State.IGNORED] for h in report.hosts) else []
    return [State.OK, *changes, State.UNREACHABLE, State.FAILED, State.SKIPPED, *ignored]


def _last_line(report: PlayReport) -> str:
    took = f"in {report.seconds:.1f} s" if report.seconds < 10 else f"in {duration(report.seconds)}"
    if not report.check:
        return took
    return f"nothing was changed (--check), {took}"


def play_document(reports: Sequence[PlayReport], mask: Callable[[str], str]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "command": "play",
        "check": any(report.check for report in reports),
        "plays": [
            {
                "play": report.play.source,
                "name": report.play.name,
                "seconds": round(report.seconds, 3),
                "recap": {
                    host: {state.value: n for state, n in report.counts(host).items()}
                    for host in report.hosts
                },
                "steps": [_outcome_document(outcome, mask) for outcome in report.outcomes],
            }
            for report in reports
        ],
    }


def _outcome_document(outcome: StepOutcome, mask: Callable[[str], str]) -> dict[str, Any]:
    step = outcome.step
    document = {
        "step": step.number,
        "title": step.title,
        "kind": step.kind,
        "host": outcome.host,
        "place": f"{step.place.source}:{step.place.line}",
        "state": outcome.state.value,
        "seconds": round(outcome.seconds, 3),
    }
    texts = {
        "item": step.item_text,
        "slug": outcome.slug,
        "detail": outcome.detail,
        "why": outcome.why,
        "hint": outcome.hint,
        "diff": outcome.diff,
    }
    return document | {key: mask(text) for key, text in texts.items() if text}


def step_lines(play: Play, options: PlayOptions) -> list[str]:
    """Return the lines of --list-steps."""
    lines = [f"{play.source}: {play.name}" if play.name else play.source]
    handler = ""
    for step in (*chosen_steps(play, options), *play.all_steps[len(play.steps) :]):
        if step.handler != handler:
            handler = step.handler
            lines.append(f"handler {handler}:")
        tags = f"  [{', '.join(sorted(step.tags))}]" if step.tags else ""
        sudo = "  sudo" if step.sudo else ""
        item = f" ({step.item_text})" if step.item else ""
        words = f"{step.number:>3}  {step.kind:<10} {step.name}{item}{tags}{sudo}"
        lines.append(words.rstrip())
    return lines
