"""What to run with on each group of equal hosts."""

from __future__ import annotations

from rich.text import Text

from ipexctl.core.recommend import Recommendation
from ipexctl.core.report import Report
from ipexctl.ui.doctor.words import cut, folded, labelled

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
    names = folded(r.hosts, 40 if width else 80)
    text.append(f"  {names}: ", "bold").append(_words(r), "not bold")
    lines = [text]
    if r.verdict:
        lines += labelled("but", r.verdict, width)
    if verbose:
        for reason in r.why:
            lines += labelled("why", reason, width)
    elif r.why and not r.verdict:
        # the data type's reason: the others explain themselves
        lines.append(Text("  " + cut(r.why[0], width - 2 if width else 160), "dim"))
    return lines


def _words(r: Recommendation) -> str:
    ranks = f"{r.ranks} rank{'s' if r.ranks != 1 else ''} × {r.threads} threads per host"
    python = f"Python {r.python}" if r.python else ""
    return " · ".join(filter(None, (r.title, python, r.dtype, ranks)))
