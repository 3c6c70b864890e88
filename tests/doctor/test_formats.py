"""The report for programs: the schema is a promise, so every output is held against it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from ipexctl.base.host_outcome import HostDown
from ipexctl.doctor.report.cluster import CheckedHosts
from ipexctl.doctor.report.finding import Finding, Severity, do, sudo
from ipexctl.doctor.report.recommendations import recommend_settings
from ipexctl.doctor.report.report import Report
from ipexctl.doctor_command import report_formats
from ipexctl.facts.reachability_facts import Peer
from ipexctl.facts.speed_facts import HostBench, MeasuredLink, Measurements
from tests.doctor.test_report import DOWN, NO_PYTHON, A, B, report

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs/schema/doctor.schema.json").read_text("utf-8")
)


def checked(text: str) -> dict[str, Any]:
    """The document, after it was found to be as the schema says."""
    told: dict[str, Any] = json.loads(text)
    jsonschema.Draft202012Validator(SCHEMA).validate(told)
    return told


HOSTILE = Finding(
    "X-001", Severity.FAIL, "node01", "a\x1b[31m|b<c>", "]]>\x00&`", "*w*", do(sudo("x"))
)
MEASURED = Measurements(
    hosts=(
        HostBench("node01", "ok", "", "2.13.0", 4, 101.5, 210.0, 12.0, "Intel AMX"),
        HostBench("node02", "no-torch"),
    ),
    links=(
        MeasuredLink("node01", "node02", 1e-4, 9.4e9),
        MeasuredLink("node02", "node01", error="broke"),
    ),
)
REPORTS = {
    "healthy": report(A, B),
    "nobody answers": report(DOWN),
    "no hosts": report(),
    "mixed": report(A, NO_PYTHON, DOWN),
    "hostile": replace(report(A), findings=(HOSTILE,)),
    "measured": replace(report(A, B), level="std", measured=MEASURED),
    "advice": replace(report(A, B), recommendations=recommend_settings(CheckedHosts((A, B)))),
    "peers": replace(
        report(A, B), peers=(Peer("node01", "node02", "10.0.0.2", ok=False, error="refused"),)
    ),
    "unreadable": report(HostDown("node09", "host-failed", "node09: \x1b odd", "why", "")),
}


@pytest.mark.parametrize("made", REPORTS.values(), ids=REPORTS)
def test_every_report_is_as_the_schema_says(made: Report):
    assert checked(report_formats.as_json(made)) == json.loads(
        json.dumps(report_formats.doctor_document(made))
    )


@pytest.mark.parametrize(
    "broken",
    [
        {"schema_version": 2},
        {"hosts": [{"name": "x"}]},
        {"extra": 1},
        {"exit_code": 2},
        {"findings": [{"id": "lower-1"}]},
    ],
)
def test_the_schema_refuses_what_is_not_a_report(broken):
    told = report_formats.doctor_document(REPORTS["healthy"]) | broken
    with pytest.raises(jsonschema.ValidationError):
        checked(json.dumps(told))


def test_the_document_tells_each_host_its_state_and_its_findings():
    told = checked(report_formats.as_json(REPORTS["mixed"]))
    assert (told["schema_version"], told["command"], told["exit_code"]) == (1, "doctor", 4)
    assert [(h["name"], h["address"], h["state"], h["isa"]) for h in told["hosts"]] == [
        ("node01", "10.0.0.1", "ok", "amx"),
        ("node02", "10.0.0.2", "fail", "amx"),
        ("node03", "", "unreachable", ""),
    ]
    assert [f["id"] for f in told["hosts"][1]["findings"]] == ["PY-001"]
    assert told["hosts"][2]["facts"] is None
    assert told["hosts"][2]["error"] == {
        "host": "node03",
        "slug": "unreachable",
        "what": "node03: no route",
        "why": "errno 113",
        "hint": "ping node03",
        "unreachable": True,
    }


def suites(made: Report) -> dict[str, tuple[str, str, str]]:
    root = ElementTree.fromstring(report_formats.junit(made))
    counts = {s.get("name", ""): s for s in root}
    return {
        name: (s.get("tests", ""), s.get("failures", ""), s.get("errors", ""))
        for name, s in counts.items()
    }


def test_junit_counts_failures_and_hosts_that_do_not_answer():
    assert suites(REPORTS["mixed"]) == {
        "node01": ("1", "0", "0"),
        "node02": ("2", "1", "0"),
        "node03": ("1", "0", "1"),
        "all hosts": ("0", "0", "0"),
    }


@pytest.mark.parametrize("made", REPORTS.values(), ids=REPORTS)
def test_junit_is_always_xml_that_can_be_read(made: Report):
    root = ElementTree.fromstring(report_formats.junit(made))
    assert int(root.get("tests", "-1")) == len(root.findall(".//testcase"))


def test_warnings_and_notes_do_not_turn_a_pipeline_red():
    warn = replace(HOSTILE, severity=Severity.WARN)
    root = ElementTree.fromstring(report_formats.junit(replace(report(A), findings=(warn,))))
    assert (root.get("failures"), root.get("errors")) == ("0", "0")
    assert "warn" in (root.findtext(".//system-out") or "")


def test_markdown_has_a_row_for_equal_hosts_and_the_fix_as_code():
    text = report_formats.markdown(REPORTS["mixed"])
    head, _, *rows = [line for line in text.splitlines() if line.startswith("|")]
    first = dict(zip(head.split("|"), rows[0].split("|"), strict=True))
    expected = {"host": "node01", "state": "ok", "isa": "amx", "memory": "16 GiB"}
    assert {name: first[f" {name} "].strip() for name in expected} == expected
    assert "### fail PY-001: no Python 3 (node02)" in text
    assert "    sudo apt-get install -y python3 python3-venv" in text


def test_markdown_takes_nothing_from_a_host_as_markup():
    text = report_formats.markdown(REPORTS["hostile"])
    assert "a[31m|b<c>" not in text and "\x1b" not in text
    assert r"a\[31m\|b\<c\>" in text
