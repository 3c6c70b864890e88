"""A request to a host is the call of a function there: names and values that it has to have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "ipexctl"
GIVEN = {"root"}  # by Fleet.call
OURS = {"root", "key"}  # by EnvOnHost.call


# their operations answer with a message of common/, or nothing
ANSWERING = (
    "run.", "run_files", "restart", "checkpoints", "blobs", "connection", "install",
    "data", "project", "remove", "play", "facts.read_speed", "facts.read_reachability",
)  # fmt: skip


def operations() -> dict[str, ast.FunctionDef]:
    found = {}
    for path in (PACKAGE / "remote").rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE / "remote").with_suffix("").parts)
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("op_"):
                found[f"{module}.{node.name[3:]}"] = node
    return found


OPERATIONS = operations()
MESSAGES = {
    node.name
    for path in (PACKAGE / "common").glob("*.py")
    for node in ast.parse(path.read_text("utf-8")).body
    if isinstance(node, ast.ClassDef)
}


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
                    for operation in _constants(tree, scope, word) & OPERATIONS.keys():
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
    options = {"timeout", "total", "on_event", "fork", "also", "form"}
    names = {word.arg for word in call.keywords if word.arg} - options
    whole = all(word.arg for word in call.keywords)
    owner = ast.unparse(call.func)
    if owner.endswith("fleet.call"):
        return names | GIVEN, whole
    if owner == "self.call":
        return names | OURS, whole
    if at + 1 == len(call.args):
        return names, False  # a function of the caller adds others
    return _names_in(scope, call.args[at + 1])


def _names_in(scope: ast.FunctionDef, value: ast.expr) -> tuple[set[str], bool]:
    value = _assigned(scope, value)
    if isinstance(value, ast.DictComp):  # the request of each host
        return _names_in(scope, value.value)
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "dict.fromkeys":
        return _names_in(scope, value.args[1])
    if not isinstance(value, ast.Dict):
        return set(), False
    names = {key.value for key in value.keys if isinstance(key, ast.Constant)}
    for key, part in zip(value.keys, value.values, strict=True):
        names |= set() if key else _names_in(scope, part)[0]
    return names, None not in value.keys


def _constants(tree: ast.Module, scope: ast.FunctionDef, value: ast.expr) -> set[str]:
    """The texts that it may stand for."""
    value = _assigned(tree, _assigned(scope, value))
    if isinstance(value, ast.FormattedValue):
        return _constants(tree, scope, value.value)
    if isinstance(value, ast.IfExp):
        either = value.body, value.orelse
        return {str(one.value) for one in either if isinstance(one, ast.Constant)}
    if isinstance(value, ast.JoinedStr):
        parts = [_constants(tree, scope, part) for part in value.values]
        return {"".join(words) for words in product(*parts)}
    return {str(value.value)} if isinstance(value, ast.Constant) else set()


def _assigned(scope: ast.FunctionDef | ast.Module, value: ast.expr) -> ast.expr:
    """What a name stands for, where it is assigned once."""
    if not isinstance(value, ast.Name):
        return value
    made = [
        node.value
        for node in _inside(scope)
        for target in getattr(node, "targets", [getattr(node, "target", None)])
        if isinstance(node, ast.Assign | ast.AnnAssign) and getattr(target, "id", "") == value.id
    ]
    return made[0] if len(made) == 1 and made[0] else value


REQUESTS = requests()


def test_most_requests_are_found() -> None:
    assert len(REQUESTS) > 70
    assert sum(whole for *_, whole in REQUESTS) > 45


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: f"{one[0]} {one[1]}")
def test_a_request_has_the_names_that_its_operation_takes(request_) -> None:
    _, operation, given, whole = request_
    args = OPERATIONS[operation].args
    names = [arg.arg for arg in args.args[1:]]
    needed = set(names[: len(names) - len(args.defaults)])
    assert args.kwarg or given <= set(names)
    assert not whole or needed <= given


@pytest.mark.parametrize("operation", [n for n in OPERATIONS if n.startswith(ANSWERING)])
def test_an_operation_answers_with_a_declared_message(operation: str) -> None:
    returns = OPERATIONS[operation].returns
    assert returns is not None and ast.unparse(returns).strip("'") in {"None", *MESSAGES}


def test_answers_are_of_operations_that_exist() -> None:
    assert all(any(name.startswith(start) for name in OPERATIONS) for start in ANSWERING)
