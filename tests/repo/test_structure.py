"""Functions are short."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ipexctl"
LINES = 60


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
