"""Pages that are made from the code are current, and have every entry."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from ipexctl import errors
from ipexctl.shipped_tables import migration_rules, table

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import error_catalogue  # noqa: E402
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


# --- the page of errors --------------------------------------------------------------------------

Catalogue = tuple[list[error_catalogue.Entry], int]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    """Reads all of the source, so not while tests are collected."""
    return error_catalogue.catalogue(ROOT / "ipexctl")


def test_every_class_of_the_tree_is_on_it(catalogue: Catalogue):
    kinds = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.IpexctlError)
    }
    assert {entry.kind for entry in catalogue[0]} == kinds


@pytest.mark.parametrize(
    ("kind", "code", "what", "hint"),
    [
        ("Unreachable", "4", "HOST: cannot log in as USER", ""),
        ("InputError", "2", "SCRIPT is a hostfile, not a script", "MEANT"),
        ("HostFailed", "1", "HOST: no environment is installed in ROOT", "ipexctl install"),
        ("HostKeyUnknown", "4", "HOST: its host key is not trusted yet", "ipexctl trust"),
        ("Unreachable", "4", "HOST: no answer for TIMEOUT s", "ssh HOST uptime"),
    ],
)
def test_known_errors_are_on_it(catalogue: Catalogue, kind, code, what, hint):
    (entry,) = [e for e in catalogue[0] if e.what == what]
    assert (entry.kind, entry.code) == (kind, code)
    assert entry.hint.startswith(hint)


def test_what_is_read_from_a_place_in_the_source():
    source = """
def f(host, path, n):
    why = "one" if n else "two"
    raise InputError(f"{host.name}: {path} has %s" % n + "!", why=why, hint="x " "y")
"""
    tree = ast.parse(source)
    ((call, local),) = [
        found
        for found in error_catalogue.Source(tree, {}).calls()
        if getattr(found[0].func, "id", "") == "InputError"
    ]
    entry = error_catalogue._entry("InputError", "InputError", "run", call, local, {})
    assert (entry.what, entry.why, entry.hint) == ("HOST: PATH has N!", "one", "x y")
