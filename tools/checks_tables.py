"""The page of the site with all checks of `ipexctl doctor`, from their declarations."""

from __future__ import annotations

from collections.abc import Iterable

from ipexctl.doctor.checks.registry import Check

_HEAD = """\
# The checks of `ipexctl doctor`

[doctor](doctor.md) explains how to read and use the findings. `ipexctl explain ID` explains one
check and shows its fix.

`fail`: a run on these hosts would break. `warn`: it would be slow or fragile. `note`: good to
know. IDs are permanent; the ID of a removed check is never reused.
"""


def page(checks: Iterable[Check]) -> str:
    found = list(checks)
    parts = [
        _HEAD,
        _table("One host", [c for c in found if not c.cluster]),
        _table("Several hosts", [c for c in found if c.cluster]),
    ]
    return "\n".join(parts)


def _table(title: str, checks: list[Check]) -> str:
    rows = []
    for c in sorted(checks, key=lambda c: c.id):
        severities = ", ".join(s.value for s in c.severities)
        rows.append(f"| {c.id} | {severities} | {_cell(c.seen)} | {_cell(c.why)} |")
    head = [
        f"## {title}",
        "",
        "| id | severity | seen when | why it matters |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
