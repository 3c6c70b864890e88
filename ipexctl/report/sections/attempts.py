"""The attempts of a run with --restarts: from where each began, what it repeated, why it ended."""

from __future__ import annotations

from typing import Any

from ipexctl.base.sizes import count, duration
from ipexctl.inventory.nodeset import fold
from ipexctl.report.material.report_material import Attempt, Material
from ipexctl.run.hang.diagnosis import stall_of

TITLE = "Attempts"
HEADS = ("Attempt", "Hosts", "Began from", "Steps", "Repeated", "Lasted", "Why it ended")
NEEDS = "attempts"
EMPTY = "The run was started once."
MONO = (2,)


def section_document(material: Material) -> dict[str, Any]:
    """Return a row for each attempt; none for a run that began once."""
    rows, reached = [], 0
    for attempt in material.attempts:
        checkpoint = dict(material.began_from).get(attempt.run.attempt, "")
        first, last = _find_step_range(material, attempt, checkpoint)
        repeated = max(0, min(reached, last) - first + 1) if first and reached else 0
        rows.append(
            [
                str(attempt.run.attempt),
                fold(attempt.run.about.hosts),
                checkpoint or "the beginning",
                f"{first:,} to {last:,}" if last else "none printed",
                count(repeated, "step") if repeated else "",
                duration(attempt.run.seconds),
                _ending_text(attempt),
            ]
        )
        reached = max(reached, last)
    return {"attempts": rows if len(rows) > 1 else []}


def _find_step_range(material: Material, attempt: Attempt, checkpoint: str) -> tuple[int, int]:
    """Return the first and the last step; that after its checkpoint, if it was printed later."""
    steps = [line.step for line in attempt.printed if line.step is not None]
    if not steps:
        return 0, 0
    saved = (c.step for c in material.checkpoints if c.name == checkpoint and c.step is not None)
    return min(min(steps), next(saved, min(steps)) + 1), max(steps)


def _ending_text(attempt: Attempt) -> str:
    run, bad = attempt.run, attempt.bad_loss
    ending = (run.cause or run.state.value, stall_of(run), bad and f"the loss is {bad}")
    return "; ".join(str(text) for text in ending if text)
