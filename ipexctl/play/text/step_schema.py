"""Convert YAML to a step's dataclass: arguments are read by the types of its fields.

A step is a frozen dataclass. Its docstring is its documentation, `arg(...)` that of each argument.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin

from ipexctl.base.located_errors import Bad, ask_if_meant, did_you_mean, nearest_word
from ipexctl.base.option import Seconds as Seconds
from ipexctl.base.sizes import seconds_of
from ipexctl.base.yaml_nodes import Mapping as MappingNode
from ipexctl.base.yaml_nodes import Node, Scalar, Sequence
from ipexctl.errors import InputError, is_shown
from ipexctl.play.text.interpolation import Scope, for_shell, interpolate_text
from ipexctl.quick_dataclass import dataclass

TRUE, FALSE = ("true", "yes", "on"), ("false", "no", "off")

_NUL = "a value cannot contain a NUL character"


class Code(str):
    """Shell code: names in it become variables of the shell. See interpolation.for_shell."""

    variables: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"{super().__repr__()} {dict(self.variables)}"


class Title(str):
    """Text on one line."""


class HostPattern(str):
    """Host names as the command line has them; a list means its items joined with commas."""


class Count(int):
    """A non-negative number."""


def shell_variables(*values: object) -> dict[str, str]:
    """Return the variables that the shell code among these values needs; an API's code has none."""
    codes = (value for value in values if isinstance(value, Code))
    return {name: value for code in codes for name, value in code.variables.items()}


class Step:
    """Base of the steps. `main` names the argument that may be given alone: `sh: make`."""

    keyword: ClassVar[str] = ""
    main: ClassVar[str] = ""
    example: ClassVar[str] = ""

    @property
    def unseen(self) -> bool:
        """Whether the host cannot tell if the step was done, so that --resume uses the journal."""
        return False

    def check(self) -> None:
        """Raise Bad if arguments contradict each other."""

    @property
    def local_files(self) -> Mapping[str, str]:
        """The argument -> the local file or folder that the step needs."""
        return {}


@dataclass(frozen=True)
class Argument:
    name: str
    kind: Any
    doc: str
    required: bool
    default: Any = None


S = TypeVar("S", bound=Step)


def arg(doc: str, default: Any = dataclasses.MISSING) -> Any:
    """Return a dataclass field with its documentation."""
    meta = {"doc": doc}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=meta)
    return dataclasses.field(default=default, metadata=meta)


_ARGUMENTS: dict[Any, dict[str, Argument]] = {}


def step_arguments(kind: Any) -> dict[str, Argument]:
    """Return the arguments of a step by name; these are the names of its fields."""
    if kind not in _ARGUMENTS:
        _ARGUMENTS[kind] = _read_arguments(kind)
    return _ARGUMENTS[kind]


def _read_arguments(kind: Any) -> dict[str, Argument]:
    """Return the arguments that a step declares as fields of its dataclass."""
    hints = typing.get_type_hints(kind)
    arguments = {}
    for field in dataclasses.fields(kind):
        if "doc" not in field.metadata:  # an option of the command only
            continue
        factory = field.default_factory
        required = field.default is dataclasses.MISSING and factory is dataclasses.MISSING
        default = factory() if factory is not dataclasses.MISSING else field.default
        arguments[field.name] = Argument(
            name=field.name,
            kind=hints[field.name],
            doc=field.metadata["doc"],
            required=required,
            default=None if required else default,
        )
    return arguments


# --- YAML -> step --------------------------------------------------------------------------------


def bind_step(kind: type[S], node: Node, scope: Scope) -> S | None:
    """Return the step with its values on a host; None if some are not known yet.

    Raises InputError with file, line and column.
    """
    values: dict[str, Any] = {}
    complete = True
    for name, value in _given_arguments(kind, node):
        argument = step_arguments(kind)[name]
        parsed = _read_placed_value(argument.kind, value, scope, f"{name}: ")
        complete = complete and parsed is not None
        values[name] = parsed
    missing = [a.name for a in step_arguments(kind).values() if a.required and a.name not in values]
    if missing:
        what = f"{kind.keyword} requires {_quote_arguments(missing)}"
        raise Bad(what, hint=kind.example, slug="argument-missing").placed(node.place)
    if not complete:
        return None
    step = kind(**values)
    try:
        step.check()
    except Bad as e:
        raise _locate_error(e, f"{kind.keyword}: ", node, scope) from None
    return step


def _locate_error(error: Bad, prefix: str, node: Node, scope: Scope | None) -> InputError:
    place = node.place_at(error.at) if isinstance(node, Scalar) else node.place
    error = error.prefixed(prefix)
    return (error.masked(scope.mask_text) if scope else error).placed(place)


def _quote_arguments(names: list[str]) -> str:
    words = " and ".join(map(repr, names))
    return f"the argument {words}" if len(names) == 1 else f"the arguments {words}"


def _arguments_of(kind: type[Step]) -> str:
    names = list(step_arguments(kind))
    if len(names) == 1:
        return f"the only argument of {kind.keyword}: {names[0]}"
    return f"arguments of {kind.keyword}: {', '.join(names)}"


def unknown_argument(kind: type[Step], name: str) -> Bad:
    near = nearest_word(name, step_arguments(kind))
    what = f"{kind.keyword} has no argument {name[:64]!r}{ask_if_meant(near)}"
    return Bad(what, hint=_arguments_of(kind), slug="unknown-argument", meant=(name, near))


def _given_arguments(kind: type[Step], node: Node) -> Iterator[tuple[str, Node]]:
    """Yield arguments by name; a single value is that of the main argument."""
    if not isinstance(node, MappingNode):
        if isinstance(node, Scalar) and node.null:
            return
        if not kind.main:
            what = f"{kind.keyword} takes arguments in the form NAME: VALUE"
            raise Bad(what, hint=kind.example, slug="wrong-yaml-shape").placed(node.place)
        yield kind.main, node
        return
    arguments = step_arguments(kind)
    for key, value in node.items:
        if key.text not in arguments:
            raise unknown_argument(kind, key.text).placed(key.place)
        yield key.text, value


def read_keys(kind: Any, node: MappingNode, skip: Collection[str]) -> dict[str, Any]:
    """Return the values of a play's keys by the fields of their dataclass, except `skip`; names in
    them are not replaced. Raises InputError."""
    values = {}
    for key, value in node.items:
        argument = step_arguments(kind).get(key.text)
        if argument and key.text not in skip and not (isinstance(value, Scalar) and value.null):
            values[key.text] = _read_placed_value(argument.kind, value, None, f"{key.text}: ")
    return values


def _read_value(kind: Any, node: Node, scope: Scope | None) -> Any:
    """Convert a node to a value of this type; None if a name in it has no value yet. Raises Bad."""
    if node.tag:
        raise Bad(
            f"unknown YAML tag {node.tag[:40]}",
            hint="put the value in quotes if it is text",
            slug="unknown-yaml-tag",
        )
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _read_value(next(k for k in inner if k is not type(None)), node, scope)
    if origin is tuple:
        return _read_list(inner[0], node, scope)
    if origin is frozenset or kind is HostPattern:
        words = _read_list(str, node, scope)
        if not all(words):
            raise Bad("expected names", slug="wrong-yaml-shape")
        joined = ",".join(words)
        return HostPattern(joined) if kind is HostPattern else frozenset(re.split(" *, *", joined))
    if origin is dict:
        return _read_dict(inner[1], node, scope)
    if not isinstance(node, Scalar):
        raise Bad(
            f"expected {describe_type(kind)}, not {describe_shape(node)}", slug="wrong-yaml-shape"
        )
    if node.null:
        what = f"{node.text} means no value in YAML" if node.text else "the value is missing"
        home = node.text == "~"
        hint = "'~' in quotes for the home folder" if home else "'' for an empty string"
        raise Bad(what, hint=hint, slug="value-missing")
    if kind is Code and scope:
        return _read_code(node.text, scope)
    text = interpolate_text(node.text, scope) if scope else node.text
    return None if text is None else scalar_as(kind, text)


def scalar_as(kind: Any, text: str) -> Any:
    """Convert text to a value of this type. Raises Bad."""
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            near = did_you_mean(text, get_args(kind))
            raise Bad(
                f"{text[:64]!r} is not one of {', '.join(filter(None, get_args(kind)))}{near}",
                slug="unknown-value",
            )
        return text
    if kind is bool:
        if text.lower() not in (*TRUE, *FALSE):
            raise Bad(f"{text[:64]!r} is not true or false", slug="not-a-boolean")
        return text.lower() in TRUE
    if kind is Seconds:
        seconds = seconds_of(text)
        if seconds is None:
            raise Bad(
                f"{text[:64]!r} is not a duration such as 90, 90s, 10m or 1h30m",
                slug="not-a-duration",
            )
        return Seconds(seconds)
    if kind is Title:
        return Title(one_line(text))
    if kind in (int, Count):
        if not re.fullmatch("-?[0-9]{1,15}", text, re.ASCII):
            raise Bad(f"{text[:64]!r} is not a decimal whole number", slug="not-a-number")
        if kind is Count and text[0] == "-":
            raise Bad(f"{text} is negative", slug="value-out-of-range")
        return kind(text)
    if "\0" in text:
        raise Bad(_NUL, slug="nul-character")
    return text


def one_line(text: str) -> str:
    if not all(map(is_shown, text.strip())):
        raise Bad(
            "line breaks and control characters are not allowed in a name",
            slug="line-break-in-value",
        )
    return text.strip()


def _read_code(text: str, scope: Scope) -> Code | None:
    """Return shell code whose names became shell variables; None if one has no value yet."""
    shell = for_shell(text, scope)
    if shell is None:
        return None
    if "\0" in "".join((shell[0], *shell[1].values())):
        raise Bad(_NUL, slug="nul-character")
    code = Code(shell[0])
    code.variables = shell[1]
    return code


def _read_list(kind: Any, node: Node, scope: Scope | None) -> Any:
    """Read a list; a single value is a list of one."""
    if isinstance(node, MappingNode):
        raise Bad("expected a list, not a mapping", slug="wrong-yaml-shape")
    nodes = node.items if isinstance(node, Sequence) else () if node.null else (node,)
    values = tuple(_read_placed_value(kind, item, scope) for item in nodes)
    return None if None in values else values


def _read_dict(kind: Any, node: Node, scope: Scope | None) -> Any:
    if isinstance(node, Scalar) and node.null:
        return {}
    if not isinstance(node, MappingNode):
        raise Bad(
            f"expected a mapping NAME: VALUE, not {describe_shape(node)}", slug="wrong-yaml-shape"
        )
    values = {key.text: _read_placed_value(kind, value, scope) for key, value in node.items}
    return None if None in values.values() else values


def _read_placed_value(kind: Any, node: Node, scope: Scope | None, prefix: str = "") -> Any:
    """Read a value; an error gets the position of the value."""
    try:
        return _read_value(kind, node, scope)
    except Bad as e:
        raise _locate_error(e, prefix, node, scope) from None


def describe_shape(node: Node) -> str:
    if isinstance(node, Scalar):
        return "an empty value" if node.null else "text"
    return "a list" if isinstance(node, Sequence) else "a mapping"


def describe_type(kind: Any) -> str:
    """Describe a type in words, for messages and documentation."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return describe_type(next(k for k in inner if k is not type(None)))
    if origin is tuple:
        return "list"
    if origin is dict:
        return "mapping"
    if origin is Literal:
        return " or ".join(inner)
    words = {bool: "true or false", int: "whole number", Seconds: "duration", Code: "shell code"}
    return words.get(kind, "text")
