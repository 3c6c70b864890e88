"""The tables of docs/checks.md, from the declarations."""

from __future__ import annotations

from collections.abc import Iterable

from ipexctl.doctor.checks.registry import Check

BEGIN = "<!-- the tables below are written by tools/gen_docs.py -->"
END = "<!-- end of the tables -->"


def updated(text: str, checks: Iterable[Check]) -> str:
    """The page with its tables made new; all else stays as it is."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the page lacks {BEGIN!r} or {END!r}")
    return before + BEGIN + "\n\n" + tables(checks) + "\n" + END + after


def tables(checks: Iterable[Check]) -> str:
    found = list(checks)
    parts = [
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
