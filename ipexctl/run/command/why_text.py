"""Format what `why` shows, and the line about a stalled run in `ps`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ipexctl.base.sizes import duration
from ipexctl.base.wrapping import wrap_text
from ipexctl.common.root_paths import ATTEMPT
from ipexctl.run.hang import diagnosis_layout
from ipexctl.run.jobs.why import Why
from ipexctl.terminal.console import print_lines, print_text, stderr_console, stdout_console
from ipexctl.terminal.recap_lines import not_shown

WHOLE_LINES = 100_000  # columns: nothing is wrapped


def show_why(why: Why, stacks: bool = False) -> None:
    console = stdout_console()
    width = console.width if console.is_terminal else WHOLE_LINES
    for line in why_lines(why, width):
        print_text(console, line)
    if stacks and why.situation:
        for line in diagnosis_layout.stack_lines(why.situation):
            print_text(console, line)
    print_lines(stderr_console(), not_shown(why.recaps, why.answered))


def why_lines(why: Why, width: int) -> Iterator[str]:
    yield _first_line(why)
    note = "another attempt followed" if why.run.later else ""
    skipped = [f"checkpoint skipped: {text}" for text in why.run.skipped]
    texts = (*why.run.end_texts, why.run.error_line, note, *skipped, why.waits)
    for text in filter(None, texts):
        yield from wrap_text(f"  {text}", width, "  ")
    if why.situation and why.diagnosis:
        yield from diagnosis_layout.diagnosis_lines(why.diagnosis, width)
    yield from _step_lines(why, width)
    if why.again:
        yield f"  again: {why.again}"


def _step_lines(why: Why, width: int) -> Iterator[str]:
    if why.steps is None:
        return
    when = "in its last minute: " if why.run.over else ""
    yield from wrap_text(f"  {when}{why.steps.headline}", width, "  ")
    for proposal in why.steps.proposals:
        yield from wrap_text(f"  {proposal.text}:", width, "  ")
        yield f"    {proposal.command}"


def _first_line(why: Why) -> str:
    """Return the headline: whether the run makes progress, its name and its hosts."""
    run = why.run
    attempt = ATTEMPT.search(run.id)
    name = f"run {run.name_or_id}" + (f", attempt {int(attempt[1])}" if attempt else "")
    where = run.ranks_text
    if why.situation is None or why.diagnosis is None:
        return f"{_describe_without_looks(why)} · {name} · {where}"
    quiet = why.situation.quiet
    if quiet is None:
        state = "making progress"
    elif not why.is_stalled:
        state = f"quiet for {duration(quiet)}, but not stalled: a rank computes"
    elif run.over:
        state = f"ended after {duration(quiet)} without progress"
    elif run.verdict:
        state = f"being ended after {duration(quiet)} without progress"
    else:
        state = f"no progress for {duration(quiet)}"
    return f"{state} · {name} · {where}"


def _describe_without_looks(why: Why) -> str:
    run = why.run
    if why.is_unknown:
        ending = f"the run is {run.phase.value}" if run.verdict else ""
        return f"not known: {ending or 'no host reports what its ranks do'}"
    if run.over:
        return f"{run.phase.value}, and was not stalled"
    return "all ranks have succeeded, and their hosts finish" if run.all_ok else run.phase.value


def why_document(why: Why, stacks: bool = False) -> dict[str, Any]:
    run, situation = why.run, why.situation
    looks = situation.looks if situation and stacks else ()
    seen = [
        {"rank": look.rank, "host": look.host} | diagnosis_layout.stack_document(look)
        for look in looks
    ]
    return {
        "schema_version": 1,
        "run_id": run.id,
        "name": run.about.name or None,
        "state": run.phase.value,
        "since": run.state.since or None,
        "stalled": why.is_stalled,
        "quiet_seconds": situation.quiet if situation else None,
        "cause": run.cause or None,
        "last_line": run.last or None,
        "waits": run.state.waits or None,
        "again": why.again or None,
        **(
            diagnosis_layout.diagnosis_document(why.diagnosis)
            if why.diagnosis
            else {"kind": "unknown" if why.is_unknown else None}
        ),
        **({"stacks": seen} if stacks else {}),
        "speed": why.speed.document() if why.speed else None,
        "steps": why.steps.document() if why.steps else None,
        "seconds": round(why.seconds, 2),
        "exit_code": why.exit_code,
    }
