"""Format what `why` shows, and the line about a stalled run in `ps`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ipexctl.base.sizes import duration
from ipexctl.base.wrapping import wrap_text
from ipexctl.inventory.hostfile_text import fold
from ipexctl.run.hang import diagnosis_layout
from ipexctl.run.jobs.why import Why
from ipexctl.terminal.console import print_text, stdout_console


def show_why(found: Why, stacks: bool = False) -> None:
    console = stdout_console()
    for line in why_lines(found, console.width):
        print_text(console, line)
    if stacks and found.situation:
        for line in diagnosis_layout.stack_lines(found.situation):
            print_text(console, line)


def why_lines(found: Why, width: int) -> Iterator[str]:
    yield _first_line(found)
    later = "another attempt followed" if found.run.later else ""
    for text in filter(None, (found.run.cause, later, found.run.waits)):
        yield from wrap_text(f"  {text}", width, "  ")
    if found.situation and found.diagnosis:
        yield from diagnosis_layout.diagnosis_lines(found.diagnosis, width)
    yield from _step_lines(found, width)


def _step_lines(found: Why, width: int) -> Iterator[str]:
    if found.steps is None:
        return
    when = "in its last minute: " if found.run.over else ""
    yield from wrap_text(f"  {when}{found.steps.headline}", width, "  ")
    for one in found.steps.proposals:
        yield from wrap_text(f"  {one.text}:", width, "  ")
        yield f"    {one.command}"


def _first_line(found: Why) -> str:
    run = found.run
    name = f"run {run.about.name or run.id}"
    where = f"{run.about.ranks} ranks on {fold(run.about.hosts)}"
    if found.situation is None or found.diagnosis is None:
        return f"{_without_looks(found)} · {name} · {where}"
    quiet = found.situation.quiet
    if quiet is None:
        state = "making progress"
    elif not found.stalled:
        state = f"quiet for {duration(quiet)}, but not stalled: a rank computes"
    elif run.over:
        state = f"ended after {duration(quiet)} without progress"
    elif run.verdict:
        state = f"being ended after {duration(quiet)} without progress"
    else:
        state = f"no progress for {duration(quiet)}"
    return f"{state} · {name} · {where}"


def _without_looks(found: Why) -> str:
    run = found.run
    if found.unknown:
        ends = f"the run is {run.state.value}" if run.verdict else ""
        return f"not known: {ends or 'no host reports what its ranks do'}"
    if run.over:
        return f"{run.state.value}, and was not stalled"
    return "all ranks have succeeded, and their hosts finish" if run.all_ok else run.state.value


def why_document(found: Why, stacks: bool = False) -> dict[str, Any]:
    run, situation = found.run, found.situation
    looks = situation.looks if situation and stacks else ()
    seen = [
        {"rank": look.rank, "host": look.host} | diagnosis_layout.stack_document(look)
        for look in looks
    ]
    return {
        "schema_version": 1,
        "run_id": run.id,
        "name": run.about.name or None,
        "state": run.state.value,
        "stalled": found.stalled,
        "quiet_seconds": situation.quiet if situation else None,
        "cause": run.cause or None,
        **(
            diagnosis_layout.diagnosis_document(found.diagnosis)
            if found.diagnosis
            else {"kind": "unknown" if found.unknown else None}
        ),
        **({"stacks": seen} if stacks else {}),
        "steps": found.steps.document() if found.steps else None,
        "seconds": round(found.seconds, 2),
        "exit_code": found.exit_code,
    }
