"""The pictures of docs/images show successes as successes, in the words of this version."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import make_recordings  # noqa: E402
import record_svg  # noqa: E402

PICTURES = sorted(make_recordings.IMAGES.glob("*.svg"))
_PAIR = re.compile(r"(?=\b([a-z][a-z']*) ([a-z][a-z']*)\b)")
_OF_OTHERS = re.compile(
    r"(\||node\d+ r\d+|(all|r[\d,-]+) +x\d+) |\$ "
)  # lines of ranks, what is typed
# What gloo and torch print; a terminal wraps such lines.
_OF_TORCH = """Connection closed by peer. This is typically caused by a remote worker crashing.
Check the logs of the remote worker before reporting an error. GLHF! The size of tensor a"""
MOST_NEW = 2  # pairs of words in one row that no text of the source has: joined when it is printed


def word_pairs(text: str) -> set[tuple[str, str]]:
    return set(_PAIR.findall(" ".join(text.lower().split())))


def texts_of(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "-" for part in node.values)
            yield "".join(str(part) for part in parts)


@cache
def words_of_this_version() -> set[tuple[str, str]]:
    """Return the neighbouring words in the source, its tests and the recorded scripts."""
    modules = [p for room in ("ipexctl", "tests") for p in (ROOT / room).rglob("*.py")]
    modules.remove(Path(__file__))
    pairs = word_pairs(_OF_TORCH)
    for module in [*modules, ROOT / "tools" / "make_recordings.py"]:
        for text in texts_of(module):
            pairs |= word_pairs(text)
    for room in ("ipexctl", "tests"):
        for table in (ROOT / room).rglob("*.toml"):  # among them, messages of torch and MPI
            pairs |= word_pairs(table.read_text("utf-8"))
    return pairs


def old_rows(rows: list[str]) -> list[str]:
    own = [row for row in rows if not _OF_OTHERS.match(row) and not row.isupper()]  # a table's head
    known = words_of_this_version()
    return [row for row in own if len(word_pairs(row) - known) > MOST_NEW]


def test_each_session_has_its_picture() -> None:
    assert {path.stem for path in PICTURES} == set(make_recordings.SESSIONS)


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_shows_what_its_session_is_about(path: Path) -> None:
    session = make_recordings.SESSIONS[path.stem]
    assert session.flaws(record_svg.shown_rows(path.read_text("utf-8"))) == [], "make pictures"


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_has_the_words_of_this_version(path: Path) -> None:
    assert old_rows(record_svg.shown_rows(path.read_text("utf-8"))) == [], "make pictures"


def test_old_words_and_a_failure_are_seen() -> None:
    advice = "a curious penguin sings beside some purple harbours of Norway"
    assert old_rows([advice, "| " + advice, "node03 r05 | " + advice]) == [advice]
    failed = "exit code 134: rank 2 failed"
    assert make_recordings.SESSIONS["run"].flaws(["step 1 loss 0.4", failed]) == [failed]
    assert make_recordings.SESSIONS["run-failed"].flaws(["step 1 loss 0.4"]) != []


# --- tools/record_svg.py: a recorded session as pictures, and these as an SVG ---------------------

SVG = "{http://www.w3.org/2000/svg}"


def test_a_session_is_played_by_its_timing_and_its_pauses_are_shortened():
    session = b"Script started\n$ go\r\n" + "löss".encode() + b"\r\n$ exit\r\n"
    timing = "0.5 6\n0.5 2\n30.0 5\n0.2 6\n"  # the second letter of löss comes in two pieces
    seen = record_svg.pictures(session, timing, (10, 4))
    shown = record_svg.shortened(seen, "$ go", 1.5)
    told = [(pause, [record_svg.words(row) for row in picture][:2]) for pause, picture in shown]
    assert told == [(0.5, ["$ go", ""]), (1.5, ["$ go", "l"]), (record_svg.LAST, ["$ go", "löss"])]


def test_the_svg_is_well_formed_and_ends_with_the_last_picture():
    screen = record_svg.Screen(10, 2)
    screen.feed("a < b")
    first = screen.picture()
    screen.feed("\r\nend")
    text = record_svg.svg([(1.0, first), (2.0, screen.picture())], "a & b")
    root = ElementTree.fromstring(text)
    assert root.find(f"{SVG}title").text == "a & b"
    assert [t.text for t in root.iter(f"{SVG}text")] == ["a\u00a0<\u00a0b", "end"]
    assert "#f{transform:translateX(-108px);animation:p 3.00s" in root.find(f"{SVG}style").text
