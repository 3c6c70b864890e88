"""The answer of a host, which may hold anything: an invalid value is that host's failure alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from ipexctl.base.values import Reader, plain
from ipexctl.errors import HostFailed, is_shown

REPORT = "run the same command again; if it fails again, report it: ipexctl support"
_HUGE = 1 << 62
_T = TypeVar("_T")


class Answer(dict[str, Any]):
    """A document of a host. What is asked of it and is not there, or is no such value, raises
    HostFailed; our own mistakes with what was read still show as what they are."""

    def __init__(self, host: str, said: object) -> None:
        if not isinstance(said, Mapping):
            raise HostFailed(
                f"{host}: the agent sent an invalid reply (not a document)",
                hint=REPORT,
                slug="agent-reply-invalid",
            )
        super().__init__(said)
        self._host = host

    def __missing__(self, name: str) -> Any:
        raise self.odd(f"{name!r} is missing")

    def odd(self, why: str) -> HostFailed:
        return HostFailed(
            f"{self._host}: the agent sent an invalid reply ({why})",
            hint=REPORT,
            slug="agent-reply-invalid",
        )

    def whole(self, name: str, most: int = _HUGE, least: int = 0) -> int:
        """A size or a count."""
        value = self[name]
        if type(value) is not int or not least <= value <= most:
            raise self.odd(f"{name!r} is not a number in range")
        return value

    def text(self, name: str) -> str:
        return self.value(name, str)

    def path(self, name: str) -> str:
        """An absolute path."""
        value = self.text(name)
        if absolute(value) is None:
            raise self.odd(f"{name!r} is not an absolute path")
        return value

    def flag(self, name: str) -> bool:
        return self.value(name, bool)

    def value(self, name: str, type_: type[_T]) -> _T:
        """A value of this type, for example tuple[tuple[str, int], ...]. An int is a size or a
        count, a str one line."""
        try:
            return as_type(type_, self[name])  # type: ignore[no-any-return]
        except _Odd as e:
            raise self.odd(f"{name!r}{e}") from None

    def optional(self, name: str, type_: type[_T]) -> _T | None:
        """A value of this type, or null."""
        return None if self[name] is None else self.value(name, type_)

    def read(self, kind: type[_T], **given: Any) -> _T:
        """A dataclass, each field by its type or by the reader of its metadata (`by`); `given` are
        the values that are not read. A field with a default may be missing."""
        try:
            return _record(kind, self, given)  # type: ignore[no-any-return]
        except _Odd as e:
            raise self.odd(str(e).strip()) from None


class AnyText(str):
    """The type of a string of any characters, for a caller that expects them."""


def _line(value: Any) -> str | None:
    return plain(value) if isinstance(value, str) else None


def _signed(value: Any) -> int | None:
    return value if type(value) is int and abs(value) <= _HUGE else None


Line = Annotated[str, _line]  # text to show: its control characters and ends of lines are left out
Signed = Annotated[int, _signed]  # a number that may be below 0


def absolute(value: Any) -> str | None:
    """The reader of an absolute path."""
    return value if _is(value, str) and value.startswith("/") else None


class _Odd(Exception):
    """Where a value is not as its type is: " 'envs' 'size' is missing"."""


def as_type(type_: Any, value: Any) -> Any:
    """The value, for the readers of fields that have another shape in a message."""
    kind, parts = get_origin(type_), get_args(type_)
    if is_dataclass(type_):
        return _record(type_, value, {})
    if kind is Annotated and (found := parts[1](value)) is not None:
        return found
    if type(None) in parts:
        return None if value is None else as_type(parts[0], value)
    if kind is tuple and isinstance(value, list):
        if parts[-1] is Ellipsis:
            return tuple(as_type(parts[0], one) for one in value)
        if len(value) == len(parts):
            return tuple(map(as_type, parts, value))
    elif kind is dict and isinstance(value, dict):
        named = ((_number(name) if parts[0] is int else name, value[name]) for name in value)
        return {as_type(parts[0], name): as_type(parts[1], one) for name, one in named}
    elif kind is None and (type_ is Any or _is(value, type_)):
        return value
    raise _Odd(" is not in the expected format")


def _number(name: str) -> int | None:
    """JSON has no keys but text."""
    return int(name) if name.isascii() and name.isdigit() and len(name) < 20 else None


def _record(kind: Any, raw: Any, given: Mapping[str, Any]) -> Any:
    """From an object, or from a list with the values in the order of the fields."""
    declared, values = _declared(kind), dict(given)
    if isinstance(raw, list) and len(raw) == len(declared):
        raw = dict(zip((key for _, key, *_ in declared), raw, strict=True))
    if not isinstance(raw, Mapping):
        raise _Odd(" is not in the expected format")
    for name, key, type_, reader, needed in declared:
        if name in given or (key not in raw and not needed):
            continue
        if key not in raw:
            raise _Odd(f" {key!r} is missing")
        try:
            values[name] = reader(raw[key]) if reader else as_type(type_, raw[key])
        except _Odd as e:
            raise _Odd(f" {key!r}{e}") from None
        if reader and values[name] is None:
            raise _Odd(f" {key!r} has an unexpected value")
    try:
        return kind(**values)
    except ValueError as e:  # of its own checks
        raise _Odd(f": {e}") from None


@cache
def _declared(kind: Any) -> tuple[tuple[str, str, Any, Reader | None, bool], ...]:
    types = get_type_hints(kind, include_extras=True)
    return tuple(
        (
            one.name,
            one.metadata.get("key") or one.name,
            types[one.name],
            one.metadata.get("reader"),
            one.default is MISSING and one.default_factory is MISSING,
        )
        for one in fields(kind)
    )


def _is(value: object, kind: type) -> bool:
    if kind is str:
        return isinstance(value, str) and all(map(is_shown, value))
    if kind is AnyText:
        return isinstance(value, str)
    if kind is float:
        return type(value) in (int, float) and 0 <= value < _HUGE  # type: ignore[operator]
    return type(value) is kind and (kind is not int or 0 <= value <= _HUGE)  # type: ignore[operator]
