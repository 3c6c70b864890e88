"""What differs between a run and the one it is compared with."""

from __future__ import annotations

from typing import Any

from ipexctl.report.comparison import difference_lines
from ipexctl.report.comparison.recorded_inputs import Speed
from ipexctl.report.comparison.run_difference import Difference, RunComparison
from ipexctl.report.comparison.step_costs import PARTS
from ipexctl.report.material.report_material import Material

TITLE = "Differences"
EMPTY = "Nothing that was recorded of the two runs differs but what is shown above."
LABELS = PARTS
NEEDS = "other"


def section_document(of: Material) -> dict[str, Any]:
    pair = of.comparison
    return {
        "other": of.other.run.id if of.other else "",
        "compared": [
            difference_lines.comparison_headline(pair),
            *difference_lines.step_cost_lines(pair),
        ]
        if pair
        else [],
        "comparison": pair and comparison_document(pair),
    }


def comparison_document(found: RunComparison) -> dict[str, Any]:
    return {
        "run": found.run.name,
        "compared_with": found.other.name,
        "speed_differs": found.speed_differs if found.factor is not None else None,
        "times_as_fast": found.factor,
        "measured": found.is_measured,
        "noise": found.noise and found.noise - 1,
        "steps_per_second": [_speed_document(one.speed) for one in (found.run, found.other)],
        "step_seconds": _step_document(found),
        "differences": [_difference_document(one) for one in found.differences],
    }


def _step_document(found: RunComparison) -> dict[str, Any] | None:
    if not found.step:
        return None
    host, *costs = found.step
    return {"host": host, **{part: [vars(c)[part] for c in costs] for part in PARTS}}


def _difference_document(one: Difference) -> dict[str, Any]:
    blank = {"host": one.host or None, "part": one.part or None}
    return {**vars(one), "explains": one.explains, **blank}


def _speed_document(speed: Speed | None) -> dict[str, float] | None:
    return dict(vars(speed)) if speed else None
