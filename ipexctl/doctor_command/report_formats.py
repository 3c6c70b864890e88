"""A doctor's report for programs: JSON, JUnit XML, Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any
from xml.etree import ElementTree

from ipexctl.doctor.report.finding import Finding, Severity
from ipexctl.doctor.report.report import Report, by_problem
from ipexctl.facts import isa, processors
from ipexctl.facts.host_facts import peer_address, plain
from ipexctl.inventory.hostfile_text import fold
from ipexctl.inventory.inventory import Host

SCHEMA = 1


def doctor_document(report: Report) -> dict[str, Any]:
    """Return the JSON document of docs/schema/doctor.schema.json; within one SCHEMA number fields
    may be added, never removed or changed."""
    return {
        "schema_version": SCHEMA,
        "command": "doctor",
        "level": report.level,
        "hosts": [_host_document(report, host) for host in report.hosts],
        "lock": report.env.lock or None if report.env else None,
        "unchecked": report.unchecked or None,
        "findings": [_finding_document(finding) for finding in report.findings_of("")],
        "peers": [_json_value(peer) for peer in report.peers],
        "recommendations": [_json_value(advice) for advice in report.recommendations],
        "measured": _json_value(report.measured),
        "seconds": round(report.seconds, 3),
        "exit_code": report.exit_code,
    }


def as_json(report: Report) -> str:
    """Return the document with one line per host: indenting in pure Python is slow."""
    parts = []
    for key, value in doctor_document(report).items():
        rows = isinstance(value, list) and value
        text = ",\n    ".join(map(_json_line, value)) if rows else _json_line(value)
        parts.append(f"  {_json_line(key)}: " + (f"[\n    {text}\n  ]" if rows else text))
    return "{\n" + ",\n".join(parts) + "\n}"


def _json_line(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def _host_document(report: Report, host: Host) -> dict[str, Any]:
    facts, down = report.facts_of(host.name), report.down_of(host.name)
    return {
        "name": host.name,
        "address": peer_address(facts) if facts else "",
        "state": report.state(host.name),
        "isa": isa.cpu_level(facts.cpu) if facts else "",
        "generation": processors.processor_generation(facts.cpu) if facts else "",
        "facts": _json_value(facts) if facts else None,
        "error": down.document() if down else None,
        "findings": [_finding_document(finding) for finding in report.findings_of(host.name)],
    }


def _finding_document(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "severity": finding.severity.value,
        "title": finding.title,
        "evidence": finding.evidence,
        "why": finding.why,
        "fix": str(finding.fix),
    }


def _json_value(value: Any) -> Any:
    """Return the value as JSON types; unlike dataclasses.asdict it copies no plain values."""
    if isinstance(value, str | int | float | None) and not isinstance(value, Enum):
        return value
    if isinstance(value, tuple | list):
        return [_json_value(v) for v in value]
    if is_dataclass(value):
        return {field.name: _json_value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, dict):
        return {k: _json_value(v) for k, v in value.items()}
    return value.value if isinstance(value, Enum) else str(value)


# --- JUnit ---------------------------------------------------------------------------------------


def junit(report: Report) -> str:
    """Return one suite per host and one for the cluster; a `fail` finding is a failure.

    Warnings and notes are passing tests with output, so that they do not fail a CI job.
    """
    root = ElementTree.Element("testsuites", name="ipexctl doctor", time=f"{report.seconds:.3f}")
    for name in [host.name for host in report.hosts] + ["all hosts"]:
        _add_suite(root, report, name)
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode")


def _add_suite(root: ElementTree.Element, report: Report, name: str) -> None:
    suite = ElementTree.SubElement(root, "testsuite", name=_escape_xml(name))
    host = "" if name == "all hosts" else name
    down = report.down_of(host) if host else None
    if host:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_escape_xml(name), name="answers"
        )
        if down:
            details = "\n".join(filter(None, (down.what, down.why, down.hint)))
            error = ElementTree.SubElement(
                case, "error", message=_escape_xml(down.what), type=down.slug
            )
            error.text = _escape_xml(details)
    findings = report.findings_of(host)
    for finding in findings:
        title = _escape_xml(f"{finding.id} {finding.title}")
        case = ElementTree.SubElement(suite, "testcase", classname=_escape_xml(name), name=title)
        text = _escape_xml(f"seen {finding.evidence}\nwhy {finding.why}\nfix {finding.fix}")
        if finding.severity is Severity.FAIL:
            ElementTree.SubElement(case, "failure", message=title, type=finding.id).text = text
        else:
            ElementTree.SubElement(case, "system-out").text = f"{finding.severity.value}\n{text}"
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(sum(finding.severity is Severity.FAIL for finding in findings)))
    suite.set("errors", "1" if down else "0")


def _escape_xml(text: str) -> str:
    """Replace control characters, which XML 1.0 cannot represent."""
    return "\n".join(plain(line) for line in text.splitlines())


# --- Markdown ------------------------------------------------------------------------------------


def markdown(report: Report) -> str:
    """Return the report as Markdown, for an issue, a wiki or a CI summary."""
    # late: rich
    from ipexctl.doctor_command.host_table import whole_table
    from ipexctl.doctor_command.report_text import verdict_line

    heads, rows = whole_table(report)
    lines = [
        f"## {_escape_md(verdict_line(report).plain)}",
        "",
        _markdown_row(*heads),
        "|---" * len(heads) + "|",
    ]
    lines += [_markdown_row(*cells) for cells in rows]
    lines += _findings_markdown(report)
    return "\n".join(lines) + "\n"


def _findings_markdown(report: Report) -> Iterable[str]:
    for down in report.down:
        yield f"\n### {_escape_md(down.slug)}: {_escape_md(down.what)}\n"
        yield from (
            f"{_escape_md(line)}  " for line in (down.why + "\n" + down.hint).splitlines() if line
        )
    for severity in Severity:
        for problem in by_problem(report.findings, severity):
            first, seen, fixes = (problem.first, problem.evidence, problem.hosts_by_fix)
            names = _escape_md(fold(problem.hosts or report.all_hosts))
            yield f"\n### {severity.value} {first.id}: {_escape_md(first.title)} ({names})\n"
            for text, hosts in seen.items():
                yield (
                    f"- {_escape_md(text)}"
                    if len(seen) == 1
                    else f"- {_escape_md(fold(hosts))}: {_escape_md(text)}"
                )
            yield f"\n{_escape_md(first.why)}\n"
            for fix, hosts in fixes.items():
                yield from [f"{_escape_md(fold(hosts))}:\n"] if len(fixes) > 1 else []
                yield from (f"    {plain(line)}" for line in fix.lines)


def _markdown_row(*cells: str) -> str:
    return "| " + " | ".join(_escape_md(cell) for cell in cells) + " |"


def _escape_md(text: str) -> str:
    """Escape text so that no Markdown reader takes it for markup."""
    return "".join("\\" + c if c in "\\`*_[]<>|#&!" else c for c in plain(" ".join(text.split())))
