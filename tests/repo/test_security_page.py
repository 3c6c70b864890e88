"""Each promise of docs/security.md is followed by tests, and they exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/security.md").read_text("utf-8")
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_TESTS = re.compile(rf"{_TEST.pattern}(, {_TEST.pattern})*")


def promises() -> list[tuple[str, list[tuple[str, str]]]]:
    """The items of the sections between "Who is trusted" and "What is not promised"."""
    head, *sections = PAGE.split("\n## ")
    titles = [section.partition("\n")[0] for section in sections]
    assert (titles[0], titles[-1]) == ("Who is trusted", "What is not promised")
    assert "tests/" not in head + sections[0] + sections[-1]
    found = []
    for section in sections[1:-1]:
        before, *items = section.partition("\n")[2].split("\n- ")
        assert not before.strip(), f"a promise without a test: {before}"
        for item in items:
            words = " ".join(item.split())
            promise = words.partition("`tests/")[0]
            assert _TESTS.fullmatch(words[len(promise) :]), f"not a promise and its tests: {words}"
            found.append((promise, _TEST.findall(words)))
    return found


def defined(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_promise_names_tests_that_exist() -> None:
    found = promises()
    assert len(found) > 20
    for promise, tests in found:
        assert promise.strip() and tests, f"no test for: {promise}"
        for path, name in tests:
            assert name.startswith("test_") and name in defined(path), f"{path}::{name} is missing"
