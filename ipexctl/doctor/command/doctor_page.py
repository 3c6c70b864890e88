"""A doctor's report as one HTML file without scripts; all text from hosts is escaped."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from ipexctl.base.host_outcome import HostDown
from ipexctl.doctor.command.findings import alike, brief_and_hint, evidence
from ipexctl.doctor.command.host_table import whole_table
from ipexctl.doctor.command.measured import measured
from ipexctl.doctor.command.report_lines import folded
from ipexctl.doctor.command.report_text import advice_words, first_step, verdict
from ipexctl.doctor.report.finding import Severity
from ipexctl.doctor.report.recommendations import Recommendation
from ipexctl.doctor.report.report import Problem, Report, by_problem
from ipexctl.pages.markup import escaped, main, paragraphs, pre, table, tag
from ipexctl.pages.page_file import page_styles, put_page
from ipexctl.pages.page_shell import shell

_TONES = {"ok": "good", "warn": "warm", "note": "soft"}  # by state; the others are bad
_TITLES = {Severity.FAIL: "Failures", Severity.WARN: "Warnings", Severity.NOTE: "Notes"}


def write(report: Report, to: str) -> None:
    """Write the page to `to`: a writable file, or "-" for stdout."""
    put_page(page(report, page_styles(), time.strftime("%Y-%m-%d %H:%M")), to)


def page(report: Report, styles: str, made: str) -> str:
    advice = sorted(report.recommendations, key=lambda r: -len(r.hosts))
    found = [
        ("Hosts", _hosts(report)),
        ("Recommended settings", _grid(map(_advice, advice))),
        ("Measured", pre("\n".join(t.plain for t in measured(report, verbose=True)).strip())),
        ("Hosts without an answer", _grid(_downs(report))),
    ]
    for severity, title in _TITLES.items():
        problems = by_problem(report.findings, severity)
        found.append((title, _grid(_problem(p, report.everyone) for p in problems)))
    body = f"{_head(report)}{main(found, made)}"
    title = f"{verdict(report).plain} · ipexctl doctor"
    return shell(title, body, command="doctor", styles=[styles])


def _head(report: Report) -> str:
    label, command = first_step(report)
    tone = "bad" if report.exit_code else "good"
    return (
        f"<header>{tag('p', f'ipexctl doctor {report.named}', 'id mono')}"
        f"{tag('h1', verdict(report).plain, tone)}"
        f'<p class="command">{escaped(label)} {tag("code", command)}</p></header>\n'
    )


def _hosts(report: Report) -> str:
    heads, found = whole_table(report)
    lines = [list(map(_cell, heads, cells)) for cells in found]
    used = "".join(
        tag("p", f"{folded(hosts, None)}: {text}", "empty")
        for text, hosts in report.environments.items()
    )
    return table("Hosts", heads, lines) + used


def _cell(head: str, text: str) -> str:
    return _state(text) if text and head == "state" else escaped(text)


def _advice(r: Recommendation) -> str:
    reasons = [r.processor] * bool(r.processor) + list(r.why)
    verdict = tag("p", r.verdict, "warm") if r.verdict else ""
    named = tag("h3", folded(r.hosts, None))
    return f"{named}{tag('p', advice_words(r, None))}{verdict}{paragraphs(reasons, 'soft')}"


def _downs(report: Report) -> Iterator[str]:
    unknown = [d for d in report.down if d.slug == "host-key-unknown"]
    if unknown:
        trust = f"{report.trust}   # compare the fingerprints first"
        yield _down(unknown, "their host keys are not trusted yet", trust)
    for same in alike([d for d in report.down if d not in unknown]):
        yield _down(same, *brief_and_hint(same))
    if report.without_downs:
        yield tag("h3", "Without these hosts") + pre(report.without_downs)


def _down(same: Sequence[HostDown], title: str, fix: str) -> str:
    found: dict[str, list[str]] = {}
    for d in same:
        found.setdefault(d.why, []).append(d.host)
    seen = [f"{folded(n, None)}: " * (len(found) > 1) + why for why, n in found.items()]
    heading = _heading(same[0].state.value, title, [d.host for d in same])
    return heading + paragraphs(seen) + pre(fix)


def _problem(problem: Problem, everyone: Sequence[str]) -> str:
    first = problem.first
    parts = [_heading(first.severity.value, f"{first.id} {first.title}", problem.hosts or everyone)]
    parts += [paragraphs(evidence(problem, verbose=True)), tag("p", first.why, "soft")]
    for fix, hosts in problem.fixes.items():
        if len(hosts) < len(problem.hosts):
            parts.append(tag("p", f"on {folded(hosts, None)}:", "command"))
        parts.append(pre(str(fix)))
    return "".join(parts)


def _heading(state: str, title: str, names: Sequence[str]) -> str:
    return f"<h3>{_state(state)} {escaped(title)}</h3>{tag('p', folded(names, None), 'id mono')}"


def _state(state: str) -> str:
    return f'<strong class="{_TONES.get(state, "bad")}">{escaped(state)}</strong>'


def _grid(panels: Iterable[str]) -> str:
    found = "".join(f'<div class="panel">{panel}</div>\n' for panel in panels)
    return f'<div class="two">{found}</div>' if found else ""
