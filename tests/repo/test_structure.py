"""A stranger guesses where things are: one name for one module, small folders, short functions."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ipexctl"
LAYERS = ("cli", "verbs", "ui")  # a command has a module in each of them
FILES, LINES = 20, 60


def modules() -> list[Path]:
    return [p for p in PACKAGE.rglob("*.py") if p.name != "__init__.py"]


def test_no_two_modules_have_one_name_but_those_of_a_command() -> None:
    places = {(p.name, _layer(p)) for p in modules()}
    counted = Counter(name for name, _ in places)
    assert [name for name, n in counted.items() if n > 1] == []
    counted = Counter((p.name, p.relative_to(PACKAGE).parts[0]) for p in modules())
    assert [place for place, n in counted.items() if n > 1] == []


def _layer(path: Path) -> str:
    """The three layers of a command count as one place."""
    first = path.relative_to(PACKAGE).parts[0]
    return "a command" if first in LAYERS else str(path.parent)


@pytest.mark.parametrize("top", ["ipexctl", "tests"])
def test_no_folder_has_too_many_files(top: str) -> None:
    counted = Counter(p.parent for p in (ROOT / top).rglob("*.py"))
    assert [str(folder) for folder, n in counted.items() if n > FILES] == []


def test_no_function_is_too_long_but_those_that_declare_options() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in PACKAGE.rglob("*.py")
        for node in _functions(path)
        if (node.end_lineno or 0) - node.lineno >= LINES and path.parent != PACKAGE / "cli"
    ]
    assert long == []


def _functions(path: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef):
            yield node
