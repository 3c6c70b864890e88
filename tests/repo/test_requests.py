"""A request to a host is the call of a function there: names and values that it has to have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "ipexctl"
GIVEN = {"root"}  # by Fleet.call
OURS = {"root", "key"}  # by EnvOnHost.call


def operations() -> dict[str, ast.arguments]:
    found = {}
    for path in (PACKAGE / "remote").rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE / "remote").with_suffix("").parts)
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("op_"):
                found[f"{module}.{node.name[3:]}"] = node.args
    return found


OPERATIONS = operations()


def requests() -> list[tuple[str, str, set[str], bool]]:
    """(where, operation, names that it is given, whether these are all) of each that is called by
    its name."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        if path.is_relative_to(PACKAGE / "remote"):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        for scope in [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]:
            for call in [n for n in _inside(scope) if isinstance(n, ast.Call)]:
                for at, word in enumerate(call.args):
                    operation = _constant(scope, word)
                    if operation in OPERATIONS:
                        where = f"{path.relative_to(PACKAGE)}:{call.lineno}"
                        found.append((where, operation, *_given(scope, call, at)))
    return found


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, other than those of functions in it."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, ast.FunctionDef):
            yield node
            yield from _inside(node)


def _given(scope: ast.FunctionDef, call: ast.Call, at: int) -> tuple[set[str], bool]:
    options = {"timeout", "total", "on_event", "fork", "also"}
    names = {word.arg for word in call.keywords if word.arg} - options
    whole = all(word.arg for word in call.keywords)
    owner = ast.unparse(call.func)
    if owner.endswith("fleet.call"):
        return names | GIVEN, whole
    if owner == "self.call":
        return names | OURS, whole
    if at + 1 == len(call.args):
        return names, whole
    return _names_in(scope, call.args[at + 1])


def _names_in(scope: ast.FunctionDef, value: ast.expr) -> tuple[set[str], bool]:
    value = _assigned(scope, value)
    if not isinstance(value, ast.Dict):
        return set(), False
    names = {key.value for key in value.keys if isinstance(key, ast.Constant)}
    return names, None not in value.keys


def _constant(scope: ast.FunctionDef, value: ast.expr) -> str:
    value = _assigned(scope, value)
    return str(value.value) if isinstance(value, ast.Constant) else ""


def _assigned(scope: ast.FunctionDef, value: ast.expr) -> ast.expr:
    """What a name stands for, where it is assigned once."""
    made = [
        node.value
        for node in _inside(scope)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == ast.unparse(value)
    ]
    return made[0] if isinstance(value, ast.Name) and len(made) == 1 else value


REQUESTS = requests()


def test_most_requests_are_found() -> None:
    assert len(REQUESTS) > 50
    assert sum(whole for *_, whole in REQUESTS) > 35


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: f"{one[0]} {one[1]}")
def test_a_request_has_the_names_that_its_operation_takes(request_) -> None:
    _, operation, given, whole = request_
    args = OPERATIONS[operation]
    names = [arg.arg for arg in args.args[1:]]
    needed = set(names[: len(names) - len(args.defaults)])
    assert args.kwarg or given <= set(names)
    assert not whole or needed <= given
