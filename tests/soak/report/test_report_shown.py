"""What the page's script makes of a run: labels of ticks, names of hosts. Needs `chromium`."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from ipexctl.base.secret_mask import SecretMask
from ipexctl.report import report_page, run_report
from ipexctl.report.many.run_table import KnownRun, runs_document
from ipexctl.report.material.host_record import Printed
from ipexctl.report.report_document import report_document
from ipexctl.run.pace.run_speed import Speed
from tests.report import made_run
from tests.report.made_run import attempt, made, material

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not CHROMIUM, reason="needs chromium (apt-get install chromium)"),
]


def shown(found: dict, folder) -> str:
    return shown_page(report_page.render_report_page(found, run_report.read_assets()), folder)


def shown_page(html: str, folder) -> str:
    path = folder / "page.html"
    path.write_text(html, "utf-8")
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", path.as_uri()]
    return subprocess.run([CHROMIUM, *words], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("seconds", [4.0, 50.0, 130.0, 205.0, 1000.0, 5000.0, 90_000.0])
def test_no_two_ticks_have_one_label(tmp_path, seconds: float):
    records = tuple(made_run.record(h, 2, 1, seconds=seconds) for h in range(2))
    run = replace(attempt(made(seconds=seconds)), records=records)
    html = shown(report_document(material(run)), tmp_path)
    axis = re.search(r'class="lane axis">(.*?)</div></div>', html, re.DOTALL)
    labels = re.findall(r"<span[^>]*>([^<]+)</span>", axis[1] if axis else "")
    assert len(labels) > 1 and len(set(labels)) == len(labels)


def test_the_end_of_a_host_name_is_not_cut(tmp_path):
    of = attempt(made())
    addresses = ("10.88.3.2", "10.88.3.13")
    records = tuple(replace(r, host=a) for r, a in zip(of.records, addresses, strict=True))
    html = shown(report_document(material(replace(of, records=records))), tmp_path)
    assert re.findall(r"<i[^>]*>(10\.88\.3\.)</i><b[^>]*>(\d+)</b>", html) == [
        ("10.88.3.", "2"),
        ("10.88.3.", "13"),
    ]


def test_of_many_runs_only_those_of_one_script_compete_and_settings_come_before_metrics(tmp_path):
    def known(number: int, script: str, loss: float, speed: Speed) -> KnownRun:
        lines = tuple(Printed(step, loss=loss + 3 - step, at=step / speed.rate) for step in (1, 30))
        run = made(id=f"20260101-12000{number}-abcdef")
        run = replace(run, about=run.about.replace(name=f"run{number}"))
        arguments = {"script": script, "--lr": str(number)}
        variables = {"MINE": str(number), "OMP_NUM_THREADS": str(number)}
        parts = {"arguments": arguments, "variables": variables}
        return KnownRun(run, parts, lines, speed, given=frozenset({"MINE"}))

    runs = [
        known(1, "train.py", 40, Speed(2, 0.1, 3)),
        known(2, "train.py", 50, Speed(1, 0.1, 3)),
        known(3, "train.py", 60, Speed(4, 0.0, 1)),  # faster, but too short to tell
        known(4, "other.py", 30, Speed(9, 0.1, 3)),
    ]
    document = {
        **runs_document(runs, SecretMask(), "ann@desk"),
        "project": "",
        "notes": [],
        "made": "",
    }
    html = shown_page(report_page.render_runs_page(document, run_report.read_assets()), tmp_path)
    heads = re.findall(r'<th scope="col"[^>]*><button type="button">([^<]*)</button>', html)
    settings, metrics = ["script", "lr", "MINE"], ["best loss", "State", "Time", "Speed"]
    assert heads == ["Name", *settings, *metrics, "When"]
    best = re.findall(
        r'<td class="number good best"[^>]*>([^<]*)(?:<span class="below">([^<]*))?', html
    )
    assert best == [("13", "step 30"), ("2.0 steps/s", "")]
    assert re.findall(r'<td class="number soft"[^>]*>([^<]*)</td>', html) == ["4.00 steps/s"]
    winners = re.findall(r"<p[^>]*>(Best loss: [^<]*)</p>", html)
    assert winners == ["Best loss: 13 (step 30), run1, script train.py, lr 1"]
