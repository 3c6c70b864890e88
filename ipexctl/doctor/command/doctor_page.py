"""A doctor's report as one HTML file, without scripts: all that hosts said is escaped text."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ipexctl import __version__
from ipexctl.base.host_outcome import HostDown
from ipexctl.base.sizes import human
from ipexctl.doctor.command.findings import alike, brief_and_hint, evidence
from ipexctl.doctor.command.host_table import COLUMNS, rows
from ipexctl.doctor.command.measured import measured
from ipexctl.doctor.command.report_lines import folded
from ipexctl.doctor.command.report_text import advice_words, first_step, verdict
from ipexctl.doctor.report.finding import Severity
from ipexctl.doctor.report.recommendations import Recommendation
from ipexctl.doctor.report.report import Problem, Report, by_problem
from ipexctl.facts.host_facts import plain
from ipexctl.pages.page_file import page_styles, write_page
from ipexctl.pages.page_shell import shell
from ipexctl.terminal.console import print_text, stderr_console

_TONES = {"ok": "good", "warn": "warm", "note": "soft"}  # of a state; the others are bad
_TITLES = {Severity.FAIL: "Failures", Severity.WARN: "Warnings", Severity.NOTE: "Notes"}


def write(report: Report, to: str) -> None:
    """`to`: a file that may be written, or "-" for stdout."""
    text = page(report, page_styles(), time.strftime("%Y-%m-%d %H:%M"))
    if to == "-":
        sys.stdout.write(text)
        return
    write_page(Path(to), text)
    print_text(stderr_console(), f"{to}  {human(len(text.encode()))}")


def page(report: Report, styles: str, made: str) -> str:
    advice = sorted(report.recommendations, key=lambda r: -len(r.hosts))
    found = [
        ("Hosts", _hosts(report)),
        ("Recommended settings", _grid(map(_advice, advice))),
        ("Measured", _pre("\n".join(t.plain for t in measured(report, verbose=True)).strip())),
        ("Hosts without an answer", _grid(_downs(report))),
    ]
    for severity, title in _TITLES.items():
        problems = by_problem(report.findings, severity)
        found.append((title, _grid(_problem(p, report.everyone) for p in problems)))
    sections = "".join(f"<section>{_tag('h2', t)}{body}</section>\n" for t, body in found if body)
    foot = f"Made by ipexctl {__version__} on {made}. This file asks for nothing outside."
    body = f"{_head(report)}<main>\n{sections}</main>\n<footer>{_tag('p', foot)}</footer>\n"
    title = f"{verdict(report).plain} · ipexctl doctor"
    return shell(title, body, command="doctor", styles=[styles])


def _head(report: Report) -> str:
    label, command = first_step(report)
    tone = "bad" if report.exit_code else "good"
    return (
        f"<header>{_tag('p', f'ipexctl doctor {report.named}', 'id mono')}"
        f"{_tag('h1', verdict(report).plain, tone)}"
        f'<p class="command">{_text(label)} {_tag("code", command)}</p></header>\n'
    )


def _hosts(report: Report) -> str:
    found = [(folded(row.hosts, None), row.state, *row.cells) for row in rows(report)]
    shown = [i for i in range(len(COLUMNS)) if any(cells[i] for cells in found)]
    heads = "".join(f'<th scope="col">{COLUMNS[i]}</th>' for i in shown)
    lines = "".join(f"<tr>{''.join(_cell(i, cells[i]) for i in shown)}</tr>\n" for cells in found)
    used = "".join(
        _tag("p", f"{folded(hosts, None)}: {text}", "empty")
        for text, hosts in report.environments.items()
    )
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Hosts"><table class="stack">'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>{lines}</tbody></table></div>{used}"
    )


def _cell(column: int, text: str) -> str:
    head = COLUMNS[column]
    shown = _state(text) if head == "state" else _text(text)
    return f'<td data-head="{head}">{shown}</td>' if text else "<td></td>"


def _advice(r: Recommendation) -> str:
    reasons = [r.processor] * bool(r.processor) + list(r.why)
    verdict = _tag("p", r.verdict, "warm") if r.verdict else ""
    named = _tag("h3", folded(r.hosts, None))
    return f"{named}{_tag('p', advice_words(r, None))}{verdict}{_paragraphs(reasons, 'soft')}"


def _downs(report: Report) -> Iterator[str]:
    unknown = [d for d in report.down if d.slug == "host-key-unknown"]
    if unknown:
        trust = f"{report.trust}   # compare the fingerprints first"
        yield _down(unknown, "their host keys are not trusted yet", trust)
    for same in alike([d for d in report.down if d not in unknown]):
        yield _down(same, *brief_and_hint(same))
    if report.without_downs:
        yield _tag("h3", "Without these hosts") + _pre(report.without_downs)


def _down(same: Sequence[HostDown], title: str, fix: str) -> str:
    found: dict[str, list[str]] = {}
    for d in same:
        found.setdefault(d.why, []).append(d.host)
    seen = [f"{folded(n, None)}: " * (len(found) > 1) + why for why, n in found.items()]
    heading = _heading(same[0].state.value, title, [d.host for d in same])
    return heading + _paragraphs(seen) + _pre(fix)


def _problem(problem: Problem, everyone: Sequence[str]) -> str:
    first = problem.first
    parts = [_heading(first.severity.value, f"{first.id} {first.title}", problem.hosts or everyone)]
    parts += [_paragraphs(evidence(problem, verbose=True)), _tag("p", first.why, "soft")]
    for fix, hosts in problem.fixes.items():
        if len(hosts) < len(problem.hosts):
            parts.append(_tag("p", f"on {folded(hosts, None)}:", "command"))
        parts.append(_pre(str(fix)))
    return "".join(parts)


def _heading(state: str, title: str, names: Sequence[str]) -> str:
    return f"<h3>{_state(state)} {_text(title)}</h3>{_tag('p', folded(names, None), 'id mono')}"


# --- text becomes markup -------------------------------------------------------------------------


def _text(text: str) -> str:
    """Without control characters; what hosts said was cut when it was read."""
    return html.escape("\n".join(plain(line, 1 << 20) for line in text.splitlines()))


def _tag(name: str, text: str, tone: str = "") -> str:
    kind = f' class="{tone}"' if tone else ""
    return f"<{name}{kind}>{_text(text)}</{name}>"


def _state(state: str) -> str:
    return f'<strong class="{_TONES.get(state, "bad")}">{_text(state)}</strong>'


def _paragraphs(texts: Iterable[str], tone: str = "") -> str:
    return "".join(_tag("p", line, tone) for text in texts for line in text.splitlines())


def _pre(text: str) -> str:
    if not text:
        return ""
    return f'<pre tabindex="0">{_text(text)}</pre>'


def _grid(panels: Iterable[str]) -> str:
    found = "".join(f'<div class="panel">{panel}</div>\n' for panel in panels)
    return f'<div class="two">{found}</div>' if found else ""
