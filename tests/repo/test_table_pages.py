"""Pages of docs/ that are made from tables in the code are current."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ipexctl.shipped_tables import migration_rules, table

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import table_pages  # noqa: E402


def test_the_page_is_current() -> None:
    page = (ROOT / "docs" / "run.md").read_text("utf-8")
    assert table_pages.with_variables(page) == page, "make docs"


def test_the_page_of_rules_has_every_rule() -> None:
    page = table_pages.rules(migration_rules().all)
    assert [r.id for r in migration_rules().all if f"| {r.id} |" not in page] == []


def test_the_page_of_the_version_table_has_every_row() -> None:
    page = table_pages.stack_rows(table())
    assert [row.name for row in table() if f"| `{row.name}`" not in page] == []


def test_a_page_without_the_marks_of_its_table_is_refused() -> None:
    with pytest.raises(ValueError, match="the page lacks"):
        table_pages.with_variables("# A page")
