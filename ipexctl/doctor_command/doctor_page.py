"""A doctor's report as one HTML file without scripts; all text from hosts is escaped."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from ipexctl.base.host_outcome import HostDown
from ipexctl.doctor.report.finding import Severity
from ipexctl.doctor.report.recommendations import Recommendation
from ipexctl.doctor.report.report import Problem, Report, by_problem
from ipexctl.doctor_command.findings import brief_and_hint, evidence_lines, group_alike_downs
from ipexctl.doctor_command.host_table import whole_table
from ipexctl.doctor_command.measured import measurement_lines
from ipexctl.doctor_command.report_lines import fold_hosts
from ipexctl.doctor_command.report_text import advice_words, first_step, verdict_line
from ipexctl.pages.markup import (
    escape_text,
    html_main,
    html_paragraphs,
    html_pre,
    html_table,
    html_tag,
)
from ipexctl.pages.page_file import page_styles, put_page
from ipexctl.pages.page_shell import frame_page

_TONES = {"ok": "good", "warn": "warm", "note": "soft"}  # by state; the others are bad
_TITLES = {Severity.FAIL: "Failures", Severity.WARN: "Warnings", Severity.NOTE: "Notes"}


def write_doctor_page(report: Report, path: str) -> None:
    """Write the page to `path`: a writable file, or "-" for stdout."""
    put_page(render_doctor_page(report, page_styles(), time.strftime("%Y-%m-%d %H:%M")), path)


def render_doctor_page(report: Report, styles: str, date: str) -> str:
    advice = sorted(report.recommendations, key=lambda item: -len(item.hosts))
    sections = [
        ("Hosts", _hosts_html(report)),
        ("Recommended settings", _panel_grid(map(_advice_html, advice))),
        (
            "Measured",
            html_pre("\n".join(t.plain for t in measurement_lines(report, verbose=True)).strip()),
        ),
        ("Hosts without an answer", _panel_grid(_down_panels(report))),
    ]
    for severity, title in _TITLES.items():
        problems = by_problem(report.findings, severity)
        sections.append((title, _panel_grid(_problem_panel(p, report.all_hosts) for p in problems)))
    body = f"{_page_head(report)}{html_main(sections, date)}"
    title = f"{verdict_line(report).plain} · ipexctl doctor"
    return frame_page(title, body, command="doctor", styles=[styles])


def _page_head(report: Report) -> str:
    label, command = first_step(report)
    tone = "bad" if report.exit_code else "good"
    return (
        f"<header>{html_tag('p', f'ipexctl doctor {report.named}', 'id mono')}"
        f"{html_tag('h1', verdict_line(report).plain, tone)}"
        f'<p class="command">{escape_text(label)} {html_tag("code", command)}</p></header>\n'
    )


def _hosts_html(report: Report) -> str:
    heads, rows = whole_table(report)
    lines = [list(map(_cell_html, heads, cells)) for cells in rows]
    environments = "".join(
        html_tag("p", f"{fold_hosts(hosts, None)}: {text}", "empty")
        for text, hosts in report.environments.items()
    )
    return html_table("Hosts", heads, lines) + environments


def _cell_html(head: str, text: str) -> str:
    return _state_tag(text) if text and head == "state" else escape_text(text)


def _advice_html(r: Recommendation) -> str:
    reasons = [r.processor] * bool(r.processor) + list(r.why)
    verdict = html_tag("p", r.verdict, "warm") if r.verdict else ""
    names = html_tag("h3", fold_hosts(r.hosts, None))
    return (
        f"{names}{html_tag('p', advice_words(r, None))}{verdict}{html_paragraphs(reasons, 'soft')}"
    )


def _down_panels(report: Report) -> Iterator[str]:
    unknown = [down for down in report.down if down.slug == "host-key-unknown"]
    if unknown:
        trust = f"{report.trust_command}   # compare the fingerprints first"
        yield _down_panel(unknown, "their host keys are not trusted yet", trust)
    for group in group_alike_downs([down for down in report.down if down not in unknown]):
        yield _down_panel(group, *brief_and_hint(group))
    if report.without_downs:
        yield html_tag("h3", "Without these hosts") + html_pre(report.without_downs)


def _down_panel(group: Sequence[HostDown], title: str, fix: str) -> str:
    by_reason: dict[str, list[str]] = {}
    for down in group:
        by_reason.setdefault(down.why, []).append(down.host)
    seen = [f"{fold_hosts(n, None)}: " * (len(by_reason) > 1) + why for why, n in by_reason.items()]
    heading = _panel_heading(group[0].state.value, title, [down.host for down in group])
    return heading + html_paragraphs(seen) + html_pre(fix)


def _problem_panel(problem: Problem, everyone: Sequence[str]) -> str:
    """Return one problem as HTML: hosts, evidence, reason, and the fixes by host."""
    first = problem.first
    parts = [
        _panel_heading(first.severity.value, f"{first.id} {first.title}", problem.hosts or everyone)
    ]
    parts += [
        html_paragraphs(evidence_lines(problem, verbose=True)),
        html_tag("p", first.why, "soft"),
    ]
    for fix, hosts in problem.hosts_by_fix.items():
        if len(hosts) < len(problem.hosts):
            parts.append(html_tag("p", f"on {fold_hosts(hosts, None)}:", "command"))
        parts.append(html_pre(str(fix)))
    return "".join(parts)


def _panel_heading(state: str, title: str, names: Sequence[str]) -> str:
    hosts = html_tag("p", fold_hosts(names, None), "id mono")
    return f"<h3>{_state_tag(state)} {escape_text(title)}</h3>{hosts}"


def _state_tag(state: str) -> str:
    return f'<strong class="{_TONES.get(state, "bad")}">{escape_text(state)}</strong>'


def _panel_grid(panels: Iterable[str]) -> str:
    html = "".join(f'<div class="panel">{panel}</div>\n' for panel in panels)
    return f'<div class="two">{html}</div>' if html else ""
