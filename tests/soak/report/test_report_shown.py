"""What the page's script makes of a run: labels of ticks, names of hosts. Needs `chromium`."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from ipexctl.report import report_page, run_report
from ipexctl.report.report_document import report_document
from tests.report import made_run
from tests.report.made_run import attempt, made, material

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not CHROMIUM, reason="needs chromium (apt-get install chromium)"),
]


def shown(found: dict, folder) -> str:
    path = folder / "page.html"
    path.write_text(report_page.render_report_page(found, run_report.read_assets()), "utf-8")
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
