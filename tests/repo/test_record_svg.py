"""tools/record_svg.py: a recorded session as pictures, and the pictures as an SVG."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "record_svg.py"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("record_svg", TOOL)
    made = importlib.util.module_from_spec(spec)
    sys.modules["record_svg"] = made  # dataclasses look their module up
    spec.loader.exec_module(made)
    yield made
    del sys.modules["record_svg"]


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("one\r\ntwo", ["one", "two", ""]),
        ("status\r\x1b[2Kline\r\nstatus", ["line", "status", ""]),
        ("abc\b\bX", ["aXc", "", ""]),
        ("a long line", ["a long l", "ine", ""]),
        ("1\r\n2\r\n3\r\n4", ["2", "3", "4"]),
        ("gone\x1b[H\x1b[Jhere", ["here", "", ""]),
        ("\x1b]0;a title\x07\x1b[?25lshown", ["shown", "", ""]),
        ("a\tb", ["a      b", "", ""]),
        ("ab\x1b[2Cc\r\nx\x1b[Ad", ["ad  c", "x", ""]),
    ],
)
def test_a_screen_shows_what_a_terminal_would(tool, written, seen):
    screen = tool.Screen(8, 3)
    screen.feed(written)
    assert [tool.words(row) for row in screen.picture()] == seen


def test_colours_are_runs_of_one_style_each(tool):
    screen = tool.Screen(20, 1)
    screen.feed("\x1b[1;32mgood\x1b[0m and \x1b[91mbad")
    green, red = tool.Style(2, bold=True), tool.Style(9)
    assert list(tool.runs(screen.picture()[0])) == [
        (0, "good", green),
        (5, "and", tool.Style()),
        (9, "bad", red),
    ]


def test_a_session_is_played_by_its_timing_and_its_pauses_are_shortened(tool):
    session = b"Script started\n$ go\r\n" + "löss".encode() + b"\r\n$ exit\r\n"
    timing = "0.5 6\n0.5 2\n30.0 5\n0.2 6\n"  # the second letter of löss comes in two pieces
    seen = tool.pictures(session, timing, (10, 4))
    shown = tool.shortened(seen, "$ go", 1.5)
    told = [(pause, [tool.words(row) for row in picture][:2]) for pause, picture in shown]
    assert told == [(0.5, ["$ go", ""]), (1.5, ["$ go", "l"]), (tool.LAST, ["$ go", "löss"])]


def test_the_svg_is_well_formed_and_ends_with_the_last_picture(tool):
    screen = tool.Screen(10, 2)
    screen.feed("a < b")
    first = screen.picture()
    screen.feed("\r\nend")
    text = tool.svg([(1.0, first), (2.0, screen.picture())], "a & b")
    root = ElementTree.fromstring(text)
    assert root.find(f"{SVG}title").text == "a & b"
    assert [t.text for t in root.iter(f"{SVG}text")] == ["a\u00a0<\u00a0b", "end"]
    assert "#f{transform:translateX(-108px);animation:p 3.00s" in root.find(f"{SVG}style").text
