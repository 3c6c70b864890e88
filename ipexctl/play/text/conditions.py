"""`when`: facts and variables compared with values. All of them must hold.

when: {isa: [amx, avx512], os: ubuntu}     one of the list; equal
when: {memory: {min: 64}, isa: {not: sse}}
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Values

from ipexctl.base.located_errors import Bad, did_you_mean
from ipexctl.base.yaml_nodes import Mapping, Node, Scalar, Sequence
from ipexctl.facts import isa
from ipexctl.play.text.fact_values import FACTS
from ipexctl.play.text.interpolation import Scope, ansible_name, expanded
from ipexctl.play.text.step_schema import shape

_TESTS = ("not", "min", "max")
_ISA = (*isa.LEVELS, *(name for name, _ in isa.ARM))
_GIB = re.compile(r"([0-9.]+)\s*(?:[Gg]i?[Bb]?)")
_VERSION = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})*(?![0-9a-zA-Z])|[0-9]{1,15}(?:\.[0-9]{1,15})+")


def check_condition(node: Node) -> None:
    """Raises InputError for what cannot be a condition."""
    if not isinstance(node, Mapping):
        what = f"when: expected facts to compare, not {shape(node)}"
        why = 'plays do not support expressions; for an "or", write two steps'
        hint = "when: {isa: amx, os: [ubuntu, debian]}"
        raise Bad(what, why=why, hint=hint, slug="wrong-yaml-shape").placed(node.place)
    for key, value in node.items:
        _check_test(key.text, value)
        if "." in key.text:
            name = key.text.removeprefix("fact.")
            near = f" (did you mean {name!r}?)" if name in FACTS else did_you_mean(name, FACTS)
            raise Bad(f"{key.text[:64]!r} is not a fact{near}", slug="not-a-fact").placed(key.place)


def _check_test(name: str, node: Node) -> None:
    if isinstance(node, Mapping):
        for key, value in node.items:
            if key.text not in _TESTS:
                what = f"{key.text!r} is not a comparison{did_you_mean(key.text, _TESTS)}"
                raise Bad(
                    what,
                    hint=f"one of: {', '.join(_TESTS)}; or a value, or a list",
                    slug="unknown-comparison",
                ).placed(key.place)
            if key.text != "not" and not isinstance(value, Scalar):
                raise Bad(
                    f"{key.text} takes one value, not {shape(value)}", slug="wrong-yaml-shape"
                ).placed(value.place)
            if isinstance(value, Scalar) and key.text != "not" and "${" not in value.text:
                _check_limit(name, key.text, value)
            if key.text == "not":
                _check_test_values(name, value)
    else:
        _check_test_values(name, node)


def _check_limit(name: str, test: str, value: Scalar) -> None:
    if name == "isa":
        _check_isa(value)
    if name == "memory" and not value.text.replace(".", "").isdigit():
        size = _GIB.fullmatch(value.text)
        what = f"memory: expected a number of GiB, not {value.text[:64]!r}"
        raise Bad(what, hint=f"{test}: {size[1]}" if size else "", slug="not-a-number").placed(
            value.place
        )
    try:
        _number(value.text) if name != "isa" else None
    except ValueError:
        what = f"{test} compares numbers and versions, not {value.text[:64]!r}"
        raise Bad(what, slug="not-a-number").placed(value.place) from None


def _check_isa(value: Scalar) -> None:
    if value.text not in _ISA and "${" not in value.text:
        near = did_you_mean(value.text, _ISA)
        hint = f"one of: {', '.join(_ISA)}"
        raise Bad(
            f"{value.text[:64]!r} is not an instruction set{near}", hint=hint, slug="not-an-isa"
        ).placed(value.place)


def _check_test_values(name: str, node: Node) -> None:
    for item in node.items if isinstance(node, Sequence) else (node,):
        if not isinstance(item, Scalar):
            raise Bad(
                f"expected a value or a list of values, not {shape(item)}", slug="wrong-yaml-shape"
            ).placed(item.place)
        if name == "isa":
            _check_isa(item)


def check_names(node: Node, variables: Values[str, object]) -> None:
    """Raises InputError for a name that is neither a fact nor a variable."""
    assert isinstance(node, Mapping)
    for key, _ in node.items:
        if key.text not in FACTS and key.text not in variables and key.text != "host":
            own = ansible_name(key.text).removeprefix("fact.")
            near = did_you_mean(key.text, (*FACTS, *variables, "host"))
            near = f" (did you mean {own!r}?)" if own else near
            hint = "" if near else f"facts: {', '.join(FACTS)}"
            raise Bad(
                f"{key.text!r} is not a fact or a variable{near}", hint=hint, slug="not-a-fact"
            ).placed(key.place)


def check_values(node: Node, scope: Scope) -> None:
    """Raises InputError for an unknown name in a value."""
    assert isinstance(node, Mapping)
    for _, test in node.items:
        for value in [value for _, value in test.items] if isinstance(test, Mapping) else [test]:
            _values(value, scope)


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
            passed = have is not None and _ordered(
                name=name, have=have, limit=values[0], test=key.text, node=test, scope=scope
            )
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
            raise e.prefixed("").placed(item.place_at(e.at)) from None
    return found


def _ordered(name: str, have: str, limit: str, test: str, node: Node, scope: Scope) -> bool:
    if name == "isa":
        return isa.at_least(have, limit) if test == "min" else isa.at_least(limit, have)
    try:
        left, right = _number(have), _number(limit)
    except ValueError:
        what = f"{test} compares numbers and versions, but {name} is {have[:64]!r}"
        raise Bad(scope.masked(what), slug="not-a-number").placed(node.place) from None
    size = max(len(left), len(right))  # 5 is 5.0
    left, right = (number + (0,) * (size - len(number)) for number in (left, right))
    return left >= right if test == "min" else left <= right


def _number(text: str) -> tuple[int, ...]:
    """5, 5.10 and 6.1.0-18-amd64 are ordered as versions, by the numbers they begin with."""
    found = _VERSION.match(text)
    if not found:
        raise ValueError(text)
    return tuple(int(part) for part in found[0].split("."))
