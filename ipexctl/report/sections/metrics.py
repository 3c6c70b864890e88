"""The other numbers with a name that the ranks print."""

from __future__ import annotations

from typing import Any

from ipexctl.report.material.metric_summary import COUNTERS, MOST_METRICS
from ipexctl.report.material.report_material import Material
from ipexctl.report.material.training_curves import (
    Row,
    attempts_chart,
    field_values,
    metric_values,
    share_an_axis,
)

TITLE = "Metrics"
NEEDS = "metrics"


def section_document(material: Material) -> dict[str, Any]:
    """Return one small curve for each name."""
    rows = list[Row]()
    if not share_an_axis(material):
        rows.append(("evaluation loss", field_values(material.attempts, "eval_loss")))
    lines = [line for attempt in material.attempts for line in attempt.printed]
    names = dict.fromkeys(name for line in lines for name, _ in line.numbers)
    rows += [
        (name, metric_values(material.attempts, name)) for name in names if name not in COUNTERS
    ]
    charts = [(name, attempts_chart([(name, values)])) for name, values in rows]
    return {"metrics": [{"title": name, **chart} for name, chart in charts if chart][:MOST_METRICS]}
