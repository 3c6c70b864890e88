"""What the preflight of a run found."""

from __future__ import annotations

from typing import Any

from ipexctl.report.material.report_material import Material

TITLE = "Preflight"
EMPTY = "The first host, which keeps the findings of the preflight, was not reached."


def section_document(material: Material) -> dict[str, Any]:
    return {"findings": material.last.of_run.findings if material.last.of_run else None}
