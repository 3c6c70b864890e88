"""doctor --html: what hosts said stays text, and the page has what the terminal shows."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ipexctl.base.host_outcome import HostDown
from ipexctl.doctor.report.report import Report
from ipexctl.doctor_command.doctor_page import render_doctor_page, write_doctor_page
from ipexctl.inventory.inventory import Host
from ipexctl.pages.page_file import SEEN, page_styles
from ipexctl.pages.page_shell import generator_tag
from tests.cli import ipexctl
from tests.doctor.test_formats import REPORTS
from tests.doctor.test_report import DOWN, NO_PYTHON, A, B, report
from tests.report.test_report_page import HOSTILE, checked_policy, parsed


def made(given: Report) -> str:
    return render_doctor_page(given, page_styles(), "2026-01-02 03:04")


def texts(html: str, tag: str) -> str:
    return " ".join(parsed(html).texts.get(tag, []))


def hostile() -> Report:
    """The words in each place that a host can fill."""
    facts = replace(A, os_name=HOSTILE)
    facts = replace(facts, cpu=replace(facts.cpu, model_name=HOSTILE, arch=HOSTILE))
    down = HostDown(HOSTILE, "unreachable", HOSTILE, HOSTILE, HOSTILE, unreachable=True)
    finding = replace(REPORTS["hostile"].findings[0], title=HOSTILE, evidence=HOSTILE, why=HOSTILE)
    advice = replace(REPORTS["advice"].recommendations[0], title=HOSTILE, why=(HOSTILE,))
    return replace(
        report(facts, down), hosts=(Host("node01"), Host(HOSTILE)), findings=(finding,),
        named=HOSTILE, without_downs=HOSTILE, recommendations=(replace(advice, verdict=HOSTILE),),
    )  # fmt: skip


@pytest.mark.parametrize("given", [*REPORTS.values(), hostile()], ids=[*REPORTS, "everywhere"])
def test_a_page_has_our_tags_only_and_the_policy_of_its_style(given: Report):
    html = made(given)
    policy = checked_policy(html)
    assert policy.startswith("default-src 'none'; style-src 'sha256-") and "script" not in policy
    seen = parsed(html).seen
    assert not {tag for tag, _ in seen} & {"script", "img", "b", "c", "a"}
    assert not any(name.startswith("on") for _, attrs in seen for name in attrs)
    assert not set("\x1b\x00\u2028") & set(html)
    assert generator_tag("doctor") in html[:SEEN]


def test_hostile_words_are_shown():
    html = made(hostile())
    assert html.count("&lt;script&gt;alert(1)") >= 10 and "alert(1)</script><" not in html


def test_the_parts_are_those_of_the_terminal():
    html = made(replace(REPORTS["mixed"], recommendations=REPORTS["advice"].recommendations))
    assert [t for t, _ in parsed(html).seen].count("h1") == 1
    titles = re.findall(r"<h2>(.*?)</h2>", html)
    assert titles[:4] == ["Hosts", "Recommended settings", "Hosts without an answer", "Failures"]
    assert texts(html, "h1").startswith("1 of 3 hosts ready · 1 unreachable · 1 failed")
    assert "sudo apt-get install -y python3 python3-venv" in texts(html, "code")
    heads = re.findall(r'<td data-head="(\w+)">', html)
    assert heads[:4] == ["host", "state", "isa", "cores"] and "python" in heads
    assert "PY-001 no Python 3" in texts(html, "strong")  # after it, in its heading
    assert "sudo apt-get install -y python3 python3-venv" in texts(html, "pre")
    assert "ping node03" in texts(html, "pre")


def test_the_level_std_adds_what_was_measured():
    assert "<h2>Measured</h2>" in made(REPORTS["measured"])
    assert "fp32 GFLOP/s" in texts(made(REPORTS["measured"]), "pre")
    assert "Measured" not in made(report(A, B))


def test_hosts_that_fail_alike_and_keys_are_together():
    alike = [replace(DOWN, host=f"node0{n}", what=f"node0{n}: no route", hint="") for n in (3, 4)]
    unknown = replace(DOWN, slug="host-key-unknown")
    keys = [replace(unknown, host=f"node0{n}", why=f"SHA256:{n}") for n in (5, 6)]
    html = made(report(A, *alike, *keys))
    panels = html.split('<div class="panel">')[1:]
    found = [p for p in panels if "unreachable</strong>" in p]
    assert len(found) == 2 and "node[05-06]" in found[0] and "node[03-04]" in found[1]
    assert "node05: SHA256:5" in html and "ipexctl trust -f hosts" in texts(html, "pre")


def test_names_of_many_hosts_are_complete():
    names = [f"{'x' * 90}{n}y{n * 7}" for n in range(100)]
    html = made(report(*(replace(NO_PYTHON, host=name) for name in names)))
    assert all(name in html for name in names[-3:])


def test_a_page_is_written_again_but_nothing_else_is_replaced(tmp_path, capsys):
    place = tmp_path / "r.html"
    write_doctor_page(report(A), str(place))
    assert place.read_text("utf-8").startswith("<!doctype html>")
    assert place.stat().st_mode & 0o777 == 0o600
    assert capsys.readouterr().err.startswith(str(place))
    write_doctor_page(report(A), "-")
    assert capsys.readouterr().out.startswith("<!doctype html>")
    for theirs in ("mine", generator_tag("report")):
        (tmp_path / "other.html").write_text(theirs)
        refused = ipexctl("doctor", "-H", "nohost", "--html", "other.html", cwd=tmp_path)
        assert (refused.slug, refused.returncode) == ("report-file-exists", 2)
        assert (tmp_path / "other.html").read_text() == theirs


@pytest.mark.parametrize("words", [("x.html", "--fix"), ("x.html", "--print"), ("-", "--json")])
def test_what_does_not_go_together_is_refused_before_hosts_are_asked(tmp_path, words):
    refused = ipexctl("doctor", "-H", "nohost", "--html", *words, cwd=tmp_path)
    assert (refused.slug, refused.returncode) == ("options-conflict", 2)
    assert not list(tmp_path.iterdir())
