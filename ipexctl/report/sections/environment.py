"""Who started a run and where, its environment and its packages."""

from __future__ import annotations

from typing import Any

from ipexctl.base.sizes import duration
from ipexctl.inventory.nodeset import fold
from ipexctl.report.material.report_material import Material

TITLE = "Environment"
EMPTY = "The first host has no record of the run’s environment."


def section_document(of: Material) -> dict[str, Any]:
    return {"facts": _fact_rows(of), "environment": of.environment, "packages": of.packages}


def _fact_rows(of: Material) -> list[list[str]]:
    about = of.last.run.about
    rows = [
        ("Hosts", fold(about.hosts)), ("Started", of.began), ("Started by", about.by),
        ("Folder", about.folder),
    ]  # fmt: skip
    for one in (attempt.run for attempt in of.attempts[:-1]):
        how = f"{duration(one.seconds)}, {one.cause or one.state.value}"
        rows.append((f"Attempt {one.attempt}", f"{fold(one.about.hosts)}: {how}"))
    return [[name, value] for name, value in rows if value]
