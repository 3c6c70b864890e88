"""What the preflight of a run found."""

from __future__ import annotations

from typing import Any

from ipexctl.report.material.report_material import Material

TITLE = "Preflight"
EMPTY = (
    "The first host kept no findings of the preflight: an earlier ipexctl started this run, or it "
    "was not reached."
)


def section_document(material: Material) -> dict[str, Any]:
    return {"findings": material.last.of_run.findings if material.last.of_run else None}
