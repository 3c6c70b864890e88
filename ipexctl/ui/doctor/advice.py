"""What to run with on each group of equal hosts."""

from __future__ import annotations

from rich.text import Text

from ipexctl.core.report import Report


def advice(report: Report, width: int | None, *, verbose: bool) -> list[Text]:
    return []
