"""`when`: facts and variables compared with values. All of them must hold.

when: {isa: [amx, avx512], os: ubuntu}     one of the list; equal
when: {memory: {min: 64}, isa: {not: sse}}
"""

from __future__ import annotations

from collections.abc import Mapping as Values

from ipexctl.core.facts import isa
from ipexctl.core.inventory.located_errors import Bad, did_you_mean
from ipexctl.core.inventory.yaml_nodes import Mapping, Node, Scalar, Sequence
from ipexctl.core.plays.fact_values import FACTS
from ipexctl.core.plays.interpolation import Scope, expanded

_TESTS = ("not", "min", "max")


def check_condition(node: Node) -> None:
    """Raises InputError for what cannot be a condition."""
    if not isinstance(node, Mapping):
        what = "when compares facts: {isa: amx, os: [ubuntu, debian]}"
        raise Bad(what, why="there are no expressions in plays").placed(node.place)
    for key, value in node.items:
        _check_test(value)
        if key.text.partition(".")[0] not in ("host", *FACTS) and "." in key.text:
            raise Bad(f"{key.text!r} is not a fact{did_you_mean(key.text, FACTS)}").placed(
                key.place
            )


def _check_test(node: Node) -> None:
    if isinstance(node, Mapping):
        for key, value in node.items:
            if key.text not in _TESTS:
                what = f"{key.text!r} is not a comparison{did_you_mean(key.text, _TESTS)}"
                raise Bad(what, hint=f"one of: {', '.join(_TESTS)}; or a value, or a list").placed(
                    key.place
                )
            if key.text != "not" and not isinstance(value, Scalar):
                raise Bad(f"{key.text} takes one value").placed(value.place)
            if key.text == "not":
                _check_test_values(value)
    else:
        _check_test_values(node)


def _check_test_values(node: Node) -> None:
    for item in node.items if isinstance(node, Sequence) else (node,):
        if not isinstance(item, Scalar):
            raise Bad("expected a value or a list of values").placed(item.place)


def check_names(node: Node, variables: Values[str, object]) -> None:
    """Raises InputError for a name that is neither a fact nor a variable."""
    assert isinstance(node, Mapping)
    for key, _ in node.items:
        if key.text not in FACTS and key.text not in variables and key.text != "host":
            near = did_you_mean(key.text, (*FACTS, *variables, "host"))
            raise Bad(f"{key.text!r} is not a fact or a variable{near}").placed(key.place)


def needs_facts(node: Node | None) -> bool:
    return isinstance(node, Mapping) and any(key.text in FACTS for key, _ in node.items)


def holds(node: Node | None, scope: Scope) -> bool:
    """Whether the condition is true of a host. A fact that the host did not tell equals nothing."""
    if node is None:
        return True
    assert isinstance(node, Mapping)
    for key, test in node.items:
        name = key.text if key.text not in FACTS else f"fact.{key.text}"
        if not _passes(key.text, scope.values.get(name), test, scope):
            return False
    return True


def _passes(name: str, have: str | None, test: Node, scope: Scope) -> bool:
    if not isinstance(test, Mapping):
        return have is not None and have in _values(test, scope)
    for key, value in test.items:
        values = _values(value, scope)
        if key.text == "not":
            passed = have not in values
        else:
            passed = have is not None and _ordered(name, have, values[0], key.text, test)
        if not passed:
            return False
    return True


def _values(node: Node, scope: Scope) -> list[str]:
    items = node.items if isinstance(node, Sequence) else (node,)
    found = []
    for item in items:
        assert isinstance(item, Scalar)
        try:
            found.append(expanded(item.text, scope) or "")
        except Bad as e:
            raise e.placed(item.place) from None
    return found


def _ordered(name: str, have: str, limit: str, test: str, node: Node) -> bool:
    if name == "isa":
        return isa.at_least(have, limit) if test == "min" else isa.at_least(limit, have)
    try:
        left, right = _number(have), _number(limit)
    except ValueError:
        what = f"{test} compares numbers, {name} is {have!r}"
        raise Bad(what).placed(node.place) from None
    return left >= right if test == "min" else left <= right


def _number(text: str) -> tuple[int, ...]:
    """5, 5.10 and 6.1.0-18-amd64 are ordered as versions."""
    head = text.split("-")[0].split("+")[0]
    return tuple(int(part) for part in head.split("."))
