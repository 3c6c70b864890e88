"""A stranger guesses where things are: one name for one module, small folders, short functions."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ipexctl"
EACH_ROOM = ("cli.py",)  # the options of its command
FILES, LINES = 20, 60


def modules() -> list[Path]:
    return [p for p in PACKAGE.rglob("*.py") if p.name != "__init__.py"]


def test_no_two_modules_have_one_name() -> None:
    counted = Counter(p.name for p in modules() if p.name not in EACH_ROOM)
    assert [name for name, n in counted.items() if n > 1] == []


@pytest.mark.parametrize("top", ["ipexctl", "tests"])
def test_no_folder_has_too_many_files(top: str) -> None:
    counted = Counter(p.parent for p in (ROOT / top).rglob("*.py"))
    full = [f"{path}: {n} Python files" for path, n in counted.items() if n > FILES]
    assert full == [], f"at most {FILES} with __init__.py; make a folder in it"


def test_no_function_is_too_long_but_those_that_declare_options() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in PACKAGE.rglob("*.py")
        for node in _functions(path)
        if (node.end_lineno or 0) - node.lineno >= LINES and not path.stem.endswith("cli")
    ]
    assert long == []


def _functions(path: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef):
            yield node
