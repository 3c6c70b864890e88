"""The losses that the ranks print."""

from __future__ import annotations

from typing import Any

from ipexctl.report.material.report_material import Material
from ipexctl.report.material.training_curves import attempts_chart, field_values, share_an_axis

TITLE = "Loss"
EMPTY = "The output of this run has no losses. A line such as “step 10 loss 0.5” is enough."


def section_document(material: Material) -> dict[str, Any]:
    rows = [("loss", field_values(material.attempts, "loss"))]
    if share_an_axis(material):
        rows.append(("evaluation", field_values(material.attempts, "eval_loss")))
    if material.other:
        rows.append((f"loss of {material.other_name}", field_values([material.other], "loss")))
    return {"loss": attempts_chart(rows)}
