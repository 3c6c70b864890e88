"""What to run with on each group of equal hosts."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from ipexctl.doctor.command.report_lines import folded, labelled, truncate
from ipexctl.doctor.report.recommendations import Recommendation
from ipexctl.doctor.report.report import Report

GROUPS = 4


def advice(report: Report, width: int | None, *, verbose: bool) -> list[Text]:
    found = sorted(report.recommendations, key=lambda r: -len(r.hosts))
    shown = found if verbose else found[:GROUPS]
    text = [Text()] if shown else []
    for r in shown:
        text += _one(r, width, verbose=verbose)
    if len(found) > len(shown):
        text.append(Text(f"… and {len(found) - len(shown)} more groups of equal hosts: -v", "dim"))
    return text


def _one(r: Recommendation, width: int | None, *, verbose: bool) -> list[Text]:
    text = Text("use", "bold")
    names = folded(r.hosts, max(24, width // 3) if width else 80)
    text.append(f"  {names}: ", "bold")
    words = _words(r, None if width is None else width - cell_len(text.plain))
    lines = [text.append(words, "not bold")]
    if r.verdict:
        lines += labelled("but", r.verdict, width)
    if verbose:
        lines += labelled("cpu", r.processor, width) if r.processor else []
        for reason in r.why:
            lines += labelled("why", reason, width)
    elif r.why and not r.verdict:
        # the data type's reason: the others explain themselves
        brief = f"{r.processor} · {r.why[0]}" if r.processor else r.why[0]
        lines.append(Text("  " + truncate(brief, width - 2 if width else 160), "dim"))
    return lines


def _words(r: Recommendation, room: int | None) -> str:
    """What there is no room for can be seen in the table above, or with -v."""
    ranks = f"{r.ranks} rank{'s' if r.ranks != 1 else ''} × {r.threads} threads"
    python = f"Python {r.python}" if r.python else ""
    parts = [p for p in (r.title, python, r.dtype, f"{ranks} per host") if p]
    brief = [p for p in (r.title, r.dtype, ranks) if p]
    words = " · ".join(parts)
    return words if room is None or cell_len(words) <= room else " · ".join(brief)
