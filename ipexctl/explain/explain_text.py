"""Print an explanation as text."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ipexctl.base.values import plain
from ipexctl.base.wrapping import wrap_text
from ipexctl.doctor.checks.registry import Check
from ipexctl.explain.causes.causes import Cause, Match
from ipexctl.explain.explain import Explanation

_SHOWN = 300


def show_explanation(explanation: Explanation, console: Console) -> None:
    if explanation.check:
        _show_check(explanation.check, explanation.related, console)
    elif explanation.cause:
        _show_cause(explanation.cause, console)
    elif not explanation.matches:
        console.print(f"{plain(explanation.source)}: no known failure in it")
    for i, match in enumerate(explanation.matches):
        if i:
            console.print()
        _show_match(match, console)


def _show_check(check: Check, related: tuple[Cause, ...], console: Console) -> None:
    levels = ", ".join(severity.value for severity in check.severities)
    console.print(Text.assemble((f"{check.id}  {check.title}", "bold"), f"  ({levels})"))
    _print_row("seen", check.seen, console)
    _print_row("why", check.why, console)
    _print_row("fix", str(check.fix) or "depends on the host: ipexctl doctor -v shows it", console)
    for cause in related:
        _print_row("failure", f"{cause.title} ({cause.slug})", console)


def _show_cause(cause: Cause, console: Console) -> None:
    console.print(Text(f"{cause.title}", "bold"), Text(f"({cause.slug})", "dim"))
    _print_row("why", cause.why, console)
    _print_row("fix", cause.fix, console)
    if cause.by_hand:
        _print_row("or", f"by hand: {cause.by_hand}", console)
    _print_row("doctor", doctor_coverage(cause), console)


def doctor_coverage(cause: Cause) -> str:
    """Return how the failure could have been detected before the run."""
    if cause.checks:
        return f"sees it before a run: {', '.join(cause.checks)}"
    return f"cannot see it before a run: {cause.unseen}"


def _show_match(match: Match, console: Console) -> None:
    repeats = f" (and {match.again} more)" if match.again else ""
    console.print(Text(f"line {match.number}{repeats}: ", "dim"), end="")
    console.print(Text(plain(match.line, _SHOWN)), soft_wrap=True)
    _show_cause(match.cause, console)


def _print_row(label: str, text: str, console: Console) -> None:
    """Print text wrapped beside its label on a terminal; commands are not wrapped."""
    width = max(40, console.width - len(_INDENT))
    for i, line in enumerate(text.splitlines()):
        lines = wrap_text(line, width, "") if console.is_terminal else [line]
        for j, part in enumerate(lines):
            head = f"{label:>6} " if i == j == 0 else _INDENT
            console.print(Text.assemble((head, "dim"), part), soft_wrap=True)


_INDENT = " " * 7
