"""The page: what comes from a run stays data, and the browser runs only our scripts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from ipexctl.errors import InputError
from ipexctl.pages.page_file import SEEN, free_place
from ipexctl.pages.page_shell import generator_tag
from ipexctl.report import report_page, run_report
from ipexctl.report.report_document import report_document
from ipexctl.run.outcome.run_state import Phase
from tests.report.made_run import attempt, made, material

HOSTILE = "</script><script>alert(1)</script><!--<script> <img src=x onerror=alert(1)> \u2028 &lt;"


@pytest.fixture(scope="module")
def html() -> str:
    run = made(Phase.FAILED, command=HOSTILE)
    run = replace(run, about=run.about.replace(name="a<b>", folder=HOSTILE))
    return report_page.render_report_page(
        report_document(material(attempt(run, tail=HOSTILE))), run_report.read_assets()
    )


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.seen:
            self.texts.setdefault(self.seen[-1][0], []).append(data)


def parsed(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    return tags


def checked_policy(html: str) -> str:
    """Of a page that has nothing else, and asks for nothing."""
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy and "unsafe" not in policy[1] and "http" not in policy[1]
    for kind in ("style", "script"):
        for text in re.findall(rf"<{kind}>(.*?)</{kind}>", html, re.DOTALL):
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy[1]
    names = {k for _, attrs in parsed(html).seen for k in attrs}
    assert not names & {"src", "href", "style"}
    return policy[1]


def test_hostile_words_stay_inside_the_data(html: str):
    tags = parsed(html)
    names = [tag for tag, _ in tags.seen]
    assert names.count("script") == 3 and "img" not in names and "b" not in names
    assert not any(name.startswith("on") for _, attrs in tags.seen for name in attrs)
    raw = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert raw and not set("<>&\u2028\u2029") & set(raw[1])
    assert json.loads(raw[1])["command"].startswith("</script><script>alert(1)")


def test_the_policy_names_what_the_page_has_and_no_network(html: str):
    assert checked_policy(html).startswith("default-src 'none'; script-src 'sha256-")


def test_headings_size_and_licence(html: str):
    tags = parsed(html)
    assert [t for t, _ in tags.seen].count("h2") == 12 and "<html lang" in html
    assert len(html.encode()) < 200_000
    assert "MIT License" in html and generator_tag("report") in html[:SEEN]


def test_lone_surrogates_and_odd_numbers():
    text = report_page.embed_json({"a": "\ud800", "b": 1.5})
    assert json.loads(text) == {"a": "?", "b": 1.5}


def test_only_a_report_is_replaced(tmp_path, html: str):
    place = tmp_path / "r.html"
    place.write_text(html)
    assert free_place(place, "report", "-o") == place
    place.write_text("<html>mine</html>")
    with pytest.raises(InputError) as refused:
        free_place(place, "report", "-o")
    assert refused.value.slug == "report-file-exists"
    (tmp_path / "link.html").symlink_to(place)
    with pytest.raises(InputError):
        free_place(tmp_path / "link.html", "report", "-o")
    with pytest.raises(InputError) as refused:
        free_place(tmp_path / "no" / "r.html", "report", "-o")
    assert refused.value.slug == "report-folder-missing"
