"""Reports in headless Chromium: three widths, light and dark, paper; nothing asked outside; axe.

Needs `chromium`, and `playwright` with `axe-core` (IPEXCTL_AXE: the path of its axe.min.js). Writes
screenshots to IPEXCTL_SHOTS, if that is set. `make soak` only.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ipexctl.report import report_page, run_report
from ipexctl.report.comparison.run_difference import Difference
from ipexctl.report.material.report_material import Attempt
from ipexctl.report.report_document import report_document
from ipexctl.run.outcome.run_state import Phase
from tests.report import made_run
from tests.report.made_run import attempt, made, material
from tests.report.test_report_page import HOSTILE

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (pip)")
CHROMIUM = shutil.which("chromium")
AXE = os.environ.get("IPEXCTL_AXE", "")
SHOTS = os.environ.get("IPEXCTL_SHOTS", "")
WIDTHS, SCHEMES = (380, 900, 1600), ("light", "dark")
OPENS = 2.0  # seconds
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not CHROMIUM, reason="needs chromium (apt-get install chromium)"),
]


def large() -> Attempt:
    """64 ranks, 10,000 steps."""
    records = tuple(
        made_run.record(h, 16, 4, seconds=3600.0, busy=3.6 if h == 7 else 1.4) for h in range(16)
    )
    lines = made_run.lines(64, 10_000, seconds=3500.0)
    return Attempt(made(hosts=16, ppn=4, seconds=3600.0), records, lines)


def runs() -> dict[str, dict]:
    second = replace(made(), id="20260101-120000-abcdef-r02", began=1070.0)
    told = (Difference("b", "another folder"), Difference("a", "code", part="computing"))
    hostile = made(Phase.FAILED, command=HOSTILE + "x" * 1_000_000)
    return {
        "good": report_document(material(attempt(made()))),
        "failed": report_document(material(attempt(hostile, tail=HOSTILE))),
        "straggling": report_document(material(attempt(made(hosts=4), slow=0.6))),
        "restarted": report_document(material(attempt(made(Phase.FAILED)), attempt(second))),
        "compared": report_document(
            material(attempt(made()), other=attempt(second), comparison=made_run.compared(*told))
        ),
        "empty": report_document(material(Attempt(made(Phase.LOST)))),
        "large": report_document(material(large())),
    }


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder, found = tmp_path_factory.mktemp("reports"), {}
    for name, made_of in runs().items():
        html = report_page.render_report_page(made_of, run_report.read_assets())
        assert len(html.encode()) < 5_000_000
        found[name] = folder / f"{name}.html"
        found[name].write_text(html, "utf-8")
    return found


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as p:
        yield p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_pages(browser, pages, width, scheme):
    for name, path in pages.items():
        page = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        ).new_page()
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda m, to=said: to.append(m.text))
        page.on("pageerror", lambda e, to=said: to.append(str(e)))
        page.on("dialog", lambda d, to=said: to.append(d.message))
        page.on("request", lambda r, to=asked: to.append(r.url))
        began = time.monotonic()
        page.goto(path.as_uri())
        page.wait_for_selector("#foot p")
        opened = time.monotonic() - began
        assert not said and asked == [path.as_uri()], (name, said, asked)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        assert page.locator("h1").count() == 1 and page.locator("h2").count() >= 9
        if name == "good":  # its values are apart in copied text, too
            words = page.evaluate("document.querySelector('.u-legend').textContent")
            assert words.split()[:4] == ["step", "100", "loss", "0.01005"]
        if name == "large" and os.getloadavg()[0] < (os.cpu_count() or 1):
            assert opened < OPENS
        if SHOTS:
            page.screenshot(path=f"{SHOTS}/{name}-{width}-{scheme}.png", full_page=True)
        if width == WIDTHS[1]:
            assert len(page.pdf()) > 10_000
        page.context.close()


@pytest.mark.skipif(not AXE, reason="needs axe-core (IPEXCTL_AXE=.../axe.min.js)")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_accessibility(browser, pages, scheme):
    script = Path(AXE).read_text("utf-8")
    for name, path in pages.items():
        page = browser.new_context(color_scheme=scheme, bypass_csp=True).new_page()
        page.goto(path.as_uri())
        page.wait_for_selector("#foot p")
        page.add_script_tag(content=script)
        found = page.evaluate("axe.run()")["violations"]
        assert [(v["id"], v["nodes"][0]["html"]) for v in found] == [], name
        page.context.close()
