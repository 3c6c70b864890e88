"""`when`: facts and variables compared with values. All comparisons must hold.

when: {isa: [amx, avx512], os: ubuntu}     one of the list; equal
when: {memory: {min: 64}, isa: {not: sse}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping as Values

from ipexctl.base.located_errors import Bad, did_you_mean
from ipexctl.base.place import Place
from ipexctl.base.yaml_nodes import Mapping, Node, Scalar, Sequence
from ipexctl.facts import isa
from ipexctl.play.text.fact_values import FACTS
from ipexctl.play.text.interpolation import Scope, ansible_name, interpolate_text
from ipexctl.play.text.step_schema import describe_shape
from ipexctl.quick_dataclass import dataclass

_COMPARISONS = ("not", "min", "max")
_ISA = (*isa.LEVELS, *(name for name, _ in isa.ARM))
_VERSION = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})*(?![0-9a-zA-Z])|[0-9]{1,15}(?:\.[0-9]{1,15})+")


@dataclass(frozen=True)
class _Test:
    """A condition on a fact or variable. `comparison` "": it equals one of the values."""

    name: Scalar
    comparison: str
    values: tuple[Scalar, ...]
    place: Place


def _read_tests(node: Node | None) -> Iterator[_Test]:
    """Yield the tests of a condition. Raises InputError for an invalid one."""
    for name, test in node.items if isinstance(node, Mapping) else ():
        if not isinstance(test, Mapping):
            yield _Test(name, "", _read_scalars(test), test.place)
            continue
        for key, value in test.items:
            if key.text not in _COMPARISONS:
                what = f"{key.text!r} is not a comparison{did_you_mean(key.text, _COMPARISONS)}"
                hint = f"one of: {', '.join(_COMPARISONS)}; or a value, or a list"
                raise Bad(what, hint=hint, slug="unknown-comparison").placed(key.place)
            if key.text != "not" and not isinstance(value, Scalar):
                what = f"{key.text} takes one value, not {describe_shape(value)}"
                raise Bad(what, slug="wrong-yaml-shape").placed(value.place)
            yield _Test(name, key.text, _read_scalars(value), test.place)


def _read_scalars(node: Node) -> tuple[Scalar, ...]:
    scalars = []
    for item in node.items if isinstance(node, Sequence) else (node,):
        if not isinstance(item, Scalar):
            what = f"expected a value or a list of values, not {describe_shape(item)}"
            raise Bad(what, slug="wrong-yaml-shape").placed(item.place)
        scalars.append(item)
    return tuple(scalars)


def check_condition(node: Node) -> None:
    """Raise InputError for an invalid condition."""
    if not isinstance(node, Mapping):
        what = f"when: expected facts to compare, not {describe_shape(node)}"
        why = 'plays do not support expressions; for an "or", write two steps'
        hint = "when: {isa: amx, os: [ubuntu, debian]}"
        raise Bad(what, why=why, hint=hint, slug="wrong-yaml-shape").placed(node.place)
    for test in _read_tests(node):
        for value in test.values:
            if "${" not in value.text:
                _check_value(test, value)
        if "." in test.name.text:
            name = test.name.text.removeprefix("fact.")
            near = f" (did you mean {name!r}?)" if name in FACTS else did_you_mean(name, FACTS)
            what = f"{test.name.text[:64]!r} is not a fact{near}"
            raise Bad(what, slug="not-a-fact").placed(test.name.place)


def _check_value(test: _Test, value: Scalar) -> None:
    """Raise InputError for a value that is not an instruction set, number or version."""
    if test.name.text == "isa" and value.text not in _ISA:
        what = f"{value.text[:64]!r} is not an instruction set{did_you_mean(value.text, _ISA)}"
        hint = f"one of: {', '.join(_ISA)}"
        raise Bad(what, hint=hint, slug="not-an-isa").placed(value.place)
    if test.name.text != "isa" and test.comparison in ("min", "max"):
        try:
            _version_numbers(value.text)
        except ValueError:
            what = f"{test.comparison} compares numbers and versions, not {value.text[:64]!r}"
            raise Bad(what, slug="not-a-number").placed(value.place) from None


def check_names(node: Node, variables: Values[str, object]) -> None:
    """Raise InputError for a name that is neither a fact nor a variable."""
    for key in (test.name for test in _read_tests(node)):
        if key.text not in FACTS and key.text not in variables and key.text != "host":
            suggestion = ansible_name(key.text).removeprefix("fact.")
            near = did_you_mean(key.text, (*FACTS, *variables, "host"))
            near = f" (did you mean {suggestion!r}?)" if suggestion else near
            hint = "" if near else f"facts: {', '.join(FACTS)}"
            raise Bad(
                f"{key.text!r} is not a fact or a variable{near}", hint=hint, slug="not-a-fact"
            ).placed(key.place)


def check_values(node: Node, scope: Scope) -> None:
    """Raise InputError for an unknown name in a value."""
    for test in _read_tests(node):
        _test_values(test, scope)


def needs_facts(node: Node | None) -> bool:
    return any(test.name.text in FACTS for test in _read_tests(node))


def condition_holds(node: Node | None, scope: Scope) -> bool:
    """Decide whether the condition holds on a host. A missing fact equals nothing."""
    return all(_test_passes(test, scope) for test in _read_tests(node))


def _test_passes(test: _Test, scope: Scope) -> bool:
    name, values = test.name.text, _test_values(test, scope)
    actual = scope.values.get(f"fact.{name}" if name in FACTS else name)
    if test.comparison == "not":
        return actual not in values
    if actual is None or not test.comparison:
        return actual in values
    return _is_in_order(test, actual, values[0], scope)


def _test_values(test: _Test, scope: Scope) -> list[str]:
    texts = []
    for value in test.values:
        try:
            texts.append(interpolate_text(value.text, scope) or "")
        except Bad as e:
            raise e.prefixed("").placed(value.place_at(e.at)) from None
    return texts


def _is_in_order(test: _Test, actual: str, limit: str, scope: Scope) -> bool:
    """Compare a fact with a limit: instruction sets by level, other facts as versions."""
    minimum, name = test.comparison == "min", test.name.text
    if name == "isa":
        return isa.at_least(actual, limit) if minimum else isa.at_least(limit, actual)
    try:
        left, right = _version_numbers(actual), _version_numbers(limit)
    except ValueError:
        what = f"{test.comparison} compares numbers and versions, but {name} is {actual[:64]!r}"
        raise Bad(scope.mask_text(what), slug="not-a-number").placed(test.place) from None
    size = max(len(left), len(right))  # 5 equals 5.0
    left, right = (number + (0,) * (size - len(number)) for number in (left, right))
    return left >= right if minimum else left <= right


def _version_numbers(text: str) -> tuple[int, ...]:
    """Return the leading numbers of 5, 5.10 or 6.1.0-18-amd64, which are ordered as versions."""
    match = _VERSION.match(text)
    if not match:
        raise ValueError(text)
    return tuple(int(part) for part in match[0].split("."))
