"""Who started a run and where, its environment and its packages."""

from __future__ import annotations

from typing import Any

from ipexctl.inventory.nodeset import fold
from ipexctl.report.material.report_material import Material
from ipexctl.run.outcome.listed_runs import ListedState

TITLE = "Environment"
EMPTY = "The first host has no record of the run’s environment."


def section_document(material: Material) -> dict[str, Any]:
    run = material.last.run
    began, about = "Queued" if run.state is ListedState.QUEUED else "Started", run.about
    rows = [
        ("Hosts", fold(about.hosts)), (began, material.began), (f"{began} by", about.by),
        ("Folder", about.folder),
    ]  # fmt: skip
    facts = [[name, value] for name, value in rows if value]
    packages = material.last.of_run.packages if material.last.of_run else ()
    return {"facts": facts, "environment": material.environment, "packages": packages}
