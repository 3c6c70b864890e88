"""The messages in the tables of symptoms are the program's own, so that a reader finds them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.repo.test_words import texts_of

ROOT = Path(__file__).parents[2]
# A message of another program, which docs/troubleshooting.md explains too.
OTHERS = {"No space left on device"}


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """All text of the program; a value inside of it is {}."""
    paths = (ROOT / "ipexctl").rglob("*.py")
    return [t for p in paths for _, t in texts_of(p.read_text("utf-8"), with_docs=True)]


def _quoted(page: str) -> list[str]:
    """The text in backquotes at the start of each row, in the section that has symptoms."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    rows = re.findall(r"^\| `([^`]+)`[^|]*\|", text.partition("# Troubleshooting")[2], re.M)
    return [row for row in rows if " " in row]


QUOTED = [(page, row) for page in ("troubleshooting.md", "ssh.md") for row in _quoted(page)]


def test_there_are_rows():
    assert len(QUOTED) > 15


@pytest.mark.parametrize(("page", "row"), QUOTED)
def test_a_quoted_message_is_one_of_the_program(texts: list[str], page, row):
    pieces = [piece.strip() for piece in row.split("...") if piece.strip()]
    unknown = [p for p in pieces if p not in OTHERS and not any(p in text for text in texts)]
    assert unknown == [], f"docs/{page} quotes {row!r}"


def test_a_message_that_the_program_does_not_have_is_found(texts: list[str]):
    assert not any("talks, but has not finished" in text for text in texts)
