"""The attempts of a run with --restarts: from where each began, what it repeated, why it ended."""

from __future__ import annotations

from typing import Any

from ipexctl.base.sizes import count, duration
from ipexctl.inventory.nodeset import fold
from ipexctl.report.material.report_material import Attempt, Material
from ipexctl.run.hang.diagnosis import stall_of
from ipexctl.run.outcome.run_state import find_unbegun

TITLE = "Attempts"
HEADS = ("Attempt", "Hosts", "Began from", "Steps", "Repeated", "Lasted", "Why it ended")
NEEDS = "attempts"
EMPTY = "The run was started once."
MONO = (2,)


def section_document(material: Material) -> dict[str, Any]:
    """Return a row for each attempt; none for a run that began once."""
    rows = list[list[str]]()
    reached = -1  # the last step so far; the first one may be 0
    starts = {number: (checkpoint, why) for number, checkpoint, why in material.began_from}
    for attempt in material.attempts:
        checkpoint, why = starts.get(attempt.run.attempt, ("", ""))
        steps = _find_step_range(material, attempt, checkpoint)
        repeated = max(0, min(reached, steps[1]) - steps[0] + 1) if steps else 0
        rows.append(
            [
                str(attempt.run.attempt),
                fold(attempt.run.about.hosts),
                checkpoint or (f"the beginning ({why})" if why and rows else "the beginning"),
                f"{steps[0]:,} to {steps[1]:,}" if steps else "none printed",
                count(repeated, "step") if repeated else "",
                duration(attempt.run.seconds),
                _ending_text(attempt),
            ]
        )
        reached = max(reached, steps[1]) if steps else reached
        for row in find_unbegun(attempt.run.further):
            ending = f"it did not begin: {row.why}"
            rows.append([str(row.attempt), fold(row.hosts), "", "none", "", "", ending])
    return {"attempts": rows if len(rows) > 1 else []}


def _find_step_range(
    material: Material, attempt: Attempt, checkpoint: str
) -> tuple[int, int] | None:
    """Return the first and the last step; that after its checkpoint, if it was printed later. None:
    no step was printed."""
    steps = [line.step for line in attempt.printed if line.step is not None]
    if not steps:
        return None
    saved = (c.step for c in material.checkpoints if c.name == checkpoint and c.step is not None)
    return min(min(steps), next(saved, min(steps)) + 1), max(steps)


def _ending_text(attempt: Attempt) -> str:
    run, bad = attempt.run, attempt.bad_loss
    cause = run.state.attempt_cause or run.cause or run.phase.value
    ending = (cause, stall_of(run), bad and f"the loss is {bad}")
    return "; ".join(str(text) for text in ending if text)
