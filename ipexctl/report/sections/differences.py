"""What differs between a run and the one it is compared with."""

from __future__ import annotations

from typing import Any

from ipexctl.report.comparison.difference_lines import comparison_headline, step_cost_lines
from ipexctl.report.comparison.run_difference import Difference, RunComparison
from ipexctl.report.comparison.step_costs import PARTS
from ipexctl.report.material.report_material import Material

TITLE = "Differences"
EMPTY = "Nothing that was recorded of the two runs differs but what is shown above."
LABELS = PARTS
NEEDS = "other"


def section_document(material: Material) -> dict[str, Any]:
    pair = material.comparison
    return {
        "other": material.other.run.id if material.other else "",
        "compared": [comparison_headline(pair), *step_cost_lines(pair)] if pair else [],
        "comparison": pair and comparison_document(pair),
    }


def comparison_document(pair: RunComparison) -> dict[str, Any]:
    return {
        "run": pair.run.name,
        "compared_with": pair.other.name,
        "speed_differs": pair.speed_differs if pair.factor is not None else None,
        "times_as_fast": pair.factor,
        "measured": pair.growth is not None,
        "noise": pair.noise and pair.noise - 1,
        "speeds": [run.speed and run.speed.document() for run in (pair.run, pair.other)],
        "step_seconds": _step_document(pair),
        "differences": [_difference_document(item) for item in pair.differences],
    }


def _step_document(comparison: RunComparison) -> dict[str, Any] | None:
    if not comparison.step:
        return None
    host, *costs = comparison.step
    return {"host": host, **{part: [vars(cost)[part] for cost in costs] for part in PARTS}}


def _difference_document(difference: Difference) -> dict[str, Any]:
    blank = {"host": difference.host or None, "part": difference.part or None}
    return {**vars(difference), "explains": difference.explains, **blank}
