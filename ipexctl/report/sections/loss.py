"""The losses that the ranks print."""

from __future__ import annotations

from typing import Any

from ipexctl.report.material.report_material import Material
from ipexctl.report.material.training_curves import attempts_chart, field_values, share_an_axis

TITLE = "Loss"
EMPTY = "The output of this run has no losses. A line such as “step 10 loss 0.5” is enough."


def section_document(of: Material) -> dict[str, Any]:
    rows = [("loss", field_values(of.attempts, "loss"))]
    if share_an_axis(of):
        rows.append(("evaluation", field_values(of.attempts, "eval_loss")))
    if of.other:
        rows.append((f"loss of {of.other_name}", field_values([of.other], "loss")))
    return {"loss": attempts_chart(rows)}
