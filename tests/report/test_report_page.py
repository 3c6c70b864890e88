"""The page: what comes from a run stays data, and the browser runs only our scripts."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from ipexctl.errors import InputError
from ipexctl.pages.page_file import SEEN, free_place, page_styles
from ipexctl.pages.page_shell import mark
from ipexctl.report import report_page, run_report
from ipexctl.report.report_data import document
from ipexctl.run.outcome.listed_runs import State
from tests.report.made_run import attempt, made, material

HOSTILE = "</script><script>alert(1)</script><!--<script> <img src=x onerror=alert(1)> \u2028 &lt;"


@pytest.fixture(scope="module")
def html() -> str:
    run = made(State.FAILED, command=HOSTILE)
    run = replace(run, about=replace(run.about, name="a<b>", folder=HOSTILE))
    return report_page.page(document(material(attempt(run, tail=HOSTILE))), run_report.assets())


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
    assert [t for t, _ in tags.seen].count("h2") == 8 and "<html lang" in html
    assert len(html.encode()) < 200_000
    assert "MIT License" in html and mark("report") in html[:SEEN]


def test_lone_surrogates_and_odd_numbers():
    text = report_page.embedded({"a": "\ud800", "b": 1.5})
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


# linear RGB -> what is seen without red, without green (Machado 2009), and by others
SIGHTS = (
    (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.052),
    ),
    (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.01182, 0.04294, 0.968881),
    ),
    ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
)
LMS = (
    (0.41222147, 0.53633254, 0.05144599), (0.2119035, 0.6806995, 0.10739696),
    (0.08830246, 0.28171884, 0.629978700),
)  # fmt: skip
OKLAB = (
    (0.2104542553, 0.793617785, -0.0040720468), (1.9779984951, -2.428592205, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.808675766),
)  # fmt: skip


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def oklab(colour: str, sight) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    seen = [min(1.0, max(0.0, c)) for c in times(sight, linear)]
    return times(OKLAB, [c ** (1 / 3) for c in times(LMS, seen)])


@pytest.mark.parametrize("sight", SIGHTS)
def test_the_phases_have_different_colours_in_light_and_dark_for_every_sight(sight):
    colours = re.findall(r"--p\d+: #(\w{6})", page_styles())
    assert len(colours) == 33  # light, dark, print
    for theme in (colours[:11], colours[11:22]):
        seen = [oklab(colour, sight) for colour in theme]
        assert min(math.dist(a, b) for a, b in itertools.combinations(seen, 2)) > 0.08
    assert colours[22:] == colours[:11]
