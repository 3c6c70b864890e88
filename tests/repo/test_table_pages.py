"""Pages of docs/ that are made from tables in the code are current."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ipexctl.shipped_tables import migration_rules

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import table_pages  # noqa: E402


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("migrate", lambda page: table_pages.with_rules(page, migration_rules().all)),
        ("run", table_pages.with_variables),
    ],
)
def test_the_page_is_current(name, made) -> None:
    page = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    assert made(page) == page, "make docs"


def test_a_page_without_the_marks_of_its_table_is_refused() -> None:
    with pytest.raises(ValueError, match="the page lacks"):
        table_pages.with_variables("# A page")
