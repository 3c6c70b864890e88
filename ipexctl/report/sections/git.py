"""The commit of a run's project, and what was changed and not committed."""

from __future__ import annotations

from typing import Any

from ipexctl.report.material.report_material import Material

TITLE = "Code"
EMPTY = "The project was not in a git work tree with a commit, or the run did not record it."


def section_document(material: Material) -> dict[str, Any]:
    git = material.last.of_run.git if material.last.of_run else None
    if git is None or not git.commit:
        return {"git": None}
    clean = "none" if git.changed == () else ""
    rows = [("Commit", git.commit), ("Branch", git.branch), ("Uncommitted changes", clean)]
    rows += [(how.capitalize(), path) for how, path in git.changed]
    diff = material.mask.mask_text(git.diff)  # before it is split: a key has several lines
    return {"git": {"rows": [row for row in rows if row[1]], "diff": diff.splitlines()}}
