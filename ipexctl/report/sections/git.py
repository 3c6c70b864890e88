"""The commit of a run's project, and what was changed and not committed."""

from __future__ import annotations

from typing import Any

from ipexctl.report.material.report_material import Material

TITLE = "Code"
UNTRACKED = "not in git"
MOST = 8  # names of those files
EMPTY = "The project was not in a git work tree with a commit, or the run did not record it."


def section_document(material: Material) -> dict[str, Any]:
    git = material.last.of_run.git if material.last.of_run else None
    if git is None or not git.commit:
        return {"git": None}
    clean = "none" if git.changed == () else ""
    rows = [("Commit", git.commit), ("Branch", git.branch), ("Uncommitted changes", clean)]
    untracked = [path for how, path in git.changed if how == UNTRACKED]
    rows += [(how.capitalize(), path) for how, path in git.changed if how != UNTRACKED]
    more = f" and {len(untracked) - MOST} more" if len(untracked) > MOST else ""
    rows.append((UNTRACKED.capitalize(), ", ".join(untracked[:MOST]) + more))
    diff = material.mask.mask_text(git.diff)  # before it is split: a key has several lines
    return {"git": {"rows": [row for row in rows if row[1]], "diff": diff.splitlines()}}
