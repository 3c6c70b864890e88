"""Read what hosts send by declared types: a dataclass, or a Message of common/. The values are not
trusted.

    mtu: int | None                                    by its type alone
    status: Literal["ok", "failed"] = "failed"
    hostname: str = field(metadata=by(name))           by a reader of its own

A value has the field's name as its key, or `key`. `Answer` is strict: an invalid value is that
host's failure alone. `record` and `rows` take what is known (facts, journals, records of runs): an
invalid value counts as unknown, that is "", None, () or the field's default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from ipexctl.base.values import Reader, list_of, plain
from ipexctl.common import message
from ipexctl.common.message import Message, Variant
from ipexctl.errors import HostFailed, is_shown

REPORT = "run the same command again; if it fails again, report it: ipexctl support"
_FORMAT = " is not in the expected format"
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_T = TypeVar("_T")


class Answer(dict[str, Any]):
    """A document of a host. Reading a missing or invalid value raises HostFailed; our own mistakes
    with the values read still raise other errors."""

    def __init__(self, host: str, reply: object) -> None:
        if not isinstance(reply, Mapping):
            raise HostFailed(
                f"{host}: the agent sent an invalid reply (not a document)",
                hint=REPORT,
                slug="agent-reply-invalid",
            )
        super().__init__(reply)
        self._host = host

    def __missing__(self, name: str) -> Any:
        raise self.invalid_reply(f"{name!r} is missing")

    def invalid_reply(self, why: str) -> HostFailed:
        return HostFailed(
            f"{self._host}: the agent sent an invalid reply ({why})",
            hint=REPORT,
            slug="agent-reply-invalid",
        )

    def integer(self, name: str, most: int = message.HUGE, least: int = 0) -> int:
        """Return a size or a count."""
        value = self[name]
        if type(value) is not int or not least <= value <= most:
            raise self.invalid_reply(f"{name!r} is not a number in range")
        return value

    def text(self, name: str) -> str:
        return self.value(name, str)

    def flag(self, name: str) -> bool:
        return self.value(name, bool)

    def value(self, name: str, type_: type[_T]) -> _T:
        """Return a value of this type, for example tuple[tuple[str, int], ...]. An int is a size or
        a count, a str one line."""
        try:
            return as_type(type_, self[name])  # type: ignore[no-any-return]
        except Odd as e:
            raise self.invalid_reply(f"{name!r}{e}") from None

    def rows(self, name: str, kind: type[_T]) -> tuple[_T, ...]:
        """Return a list of what is known of each entry, which has at least the `needed` values."""
        rows = self.value(name, tuple[dict[str, Any], ...])
        try:
            return tuple([_record(kind, row, False) for row in rows])
        except Odd as e:
            raise self.invalid_reply(f"{name!r}{e}") from None

    def read(self, kind: type[_T], **given: Any) -> _T:
        """Return a dataclass, each field read by its type or by the reader of its metadata (`by`);
        `given` are values that are not read. A field with a default may be missing."""
        try:
            return _record(kind, self, True, given)  # type: ignore[no-any-return]
        except Odd as e:
            raise self.invalid_reply(str(e).strip()) from None


class AnyText(str):
    """The type of a string of any characters, for a caller that expects them."""


def _read_line(value: Any) -> str | None:
    return plain(value) if isinstance(value, str) else None


def _read_signed(value: Any) -> int | None:
    return value if message.is_whole(value) else None


def _read_port(value: Any) -> int | None:
    return value if message.is_port(value) else None


def _read_exit_code(value: Any) -> int | None:
    return value if message.is_exit_code(value) else None


def _read_env_key(value: Any) -> str | None:
    return value if message.is_env_key(value) else None


def _read_document(value: Any) -> dict[str, Any] | None:
    return value if message.is_document(value) else None


def read_absolute_path(value: Any) -> str | None:
    """Read an absolute path."""
    return value if _is_line(value) and value.startswith("/") else None


Line = Annotated[str, _read_line]  # text to show, without control characters and ends of lines
Signed = Annotated[int, _read_signed]  # a number that may be negative
Port = Annotated[int, _read_port]
ExitCode = Annotated[int, _read_exit_code]
AbsolutePath = Annotated[str, read_absolute_path]
EnvKey = Annotated[str, _read_env_key]
Document = Annotated[dict[str, Any], _read_document]  # its own reader trusts nothing in it


class Odd(Exception):
    """A value does not have its type; the text says where: " 'envs' 'size' is missing"."""


def as_type(type_: Any, value: Any, *, strict: bool = True) -> Any:
    """Return the value, for the readers of fields that have another shape in a message."""
    return reader_of(type_, strict)(value)


def read_record(kind: type[_T], raw: Any, **given: Any) -> _T:
    """Return a dataclass from what is known of it; `given` are values that are not read."""
    record = raw if isinstance(raw, Mapping) else {}
    return _record(kind, record, False, given)  # type: ignore[no-any-return]


def read_rows(kind: type[_T], raw: Any) -> tuple[_T, ...]:
    """Read a list of objects, or of lists with the values in the order of the fields. Rows without
    a `needed` value are left out."""
    try:
        return as_type(tuple[kind, ...], raw, strict=False)  # type: ignore[no-any-return, valid-type]
    except Odd:
        return ()


def read_messages(kind: type[_T], raw: Any) -> tuple[_T, ...]:
    """Read a list of messages; those that are not as declared are left out."""
    messages = []
    for row in list_of(raw):
        with suppress(Odd):
            messages.append(as_type(kind, row))
    return tuple(messages)


# --- readers by types ----------------------------------------------------------------------------


@cache
def reader_of(type_: Any, strict: bool) -> Reader:
    """Return a function that reads a value of this type, and raises Odd."""
    kind, types = get_origin(type_), get_args(type_)
    if is_dataclass(type_) or _is_message(type_):
        return lambda value: _record(type_, value, strict)
    if kind is Annotated:
        return _refuse_values(types[1])
    if kind is Literal:
        return _refuse_values(lambda value: value if value in types else None)
    if kind in (Union, UnionType):
        options = [reader_of(part, strict) for part in types if part is not NoneType]
        return _union_reader(options, may_be_none=NoneType in types)
    if kind is dict:
        return _dict_reader(*(reader_of(part, strict) for part in types), whole=types[0] is int)
    if kind is tuple and types[-1] is not Ellipsis:
        readers = tuple(reader_of(part, strict) for part in types)
        return lambda value: _read_fixed_list(readers, value)
    if kind:
        read = reader_of(types[0], strict)
        return lambda value: _read_many(kind, read, strict, value)
    return _LOOSE_TEXT if type_ is str and not strict else _LEAVES[type_]


def _union_reader(options: list[Reader], *, may_be_none: bool) -> Reader:
    *others, last = options

    def read(value: Any) -> Any:
        if value is None and may_be_none:
            return None
        for option in others:
            with suppress(Odd):
                return option(value)
        return last(value)

    return read


def _refuse_values(reader: Reader, empty: tuple[Any, ...] = (None,)) -> Reader:
    def read(value: Any) -> Any:
        result = reader(value)
        if result in empty:
            raise Odd(" has an unexpected value")
        return result

    return read


def _dict_reader(name: Reader, item: Reader, *, whole: bool) -> Reader:
    def read(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise Odd(_FORMAT)
        return {name(_number_key(key) if whole else key): item(value[key]) for key in value}

    return read


def _number_key(name: str) -> int | None:
    """Return a JSON key, which is always text, as a number."""
    return int(name) if message.is_number_key(name) else None


def _read_fixed_list(readers: tuple[Reader, ...], value: Any) -> tuple[Any, ...]:
    """Read a list that has one value of each kind."""
    if not isinstance(value, list) or len(value) != len(readers):
        raise Odd(_FORMAT)
    return tuple([read(item) for read, item in zip(readers, value, strict=True)])


def _read_many(collection: Any, read: Reader, strict: bool, value: Any) -> Any:
    """Read a list into a collection; without `strict`, invalid items are left out."""
    if not strict and isinstance(value, Mapping):  # name: values, as rows
        value = [[n, *item] if isinstance(item, list) else [n, item] for n, item in value.items()]
    if not isinstance(value, list):
        raise Odd(_FORMAT)
    if strict:
        return collection([read(item) for item in value])
    values = []
    for item in list_of(value):
        try:
            values.append(read(item))
        except Odd:
            continue
    return collection([item for item in values if item not in ("", None, ())])


# --- dataclasses ---------------------------------------------------------------------------------


class _Declared(NamedTuple):
    name: str
    key: str  # its name in the host's answer
    read: Reader
    default: bool
    needed: bool
    empty: Any  # the value if it is unknown


@cache
def _declared_fields(kind: Any, strict: bool) -> tuple[_Declared, ...]:
    if _is_message(kind):
        return tuple(_declare_in(kind, name, type_, strict) for name, type_ in _hints(kind).items())
    hints = cache(lambda: _hints(kind))  # many classes need none
    return tuple(_declare_field(field, hints, strict) for field in fields(kind))


def _is_message(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Message)


def _hints(kind: Any) -> dict[str, Any]:
    few = {name: message.find_kind(name) for name in message.later}
    return get_type_hints(kind, localns=_MEANT | few, include_extras=True)


def _declare_in(kind: type[Message], name: str, type_: Any, strict: bool) -> _Declared:
    default = hasattr(kind, name)
    empty = None if strict or default else _unknown_value(type_)
    return _Declared(name, name, reader_of(type_, strict), default, strict, empty)


def _declare_field(one: Field[Any], hints: Callable[[], dict[str, Any]], strict: bool) -> _Declared:
    """Return how a field of a dataclass is read, by its metadata and type."""
    meta, default = one.metadata, one.default is not MISSING or one.default_factory is not MISSING
    needed = meta.get("needed", False)
    if reader := meta.get("reader"):
        read = _refuse_values(reader, (None, "") if needed and not strict else (None,))
        type_ = None
    else:
        type_ = _NAMED.get(one.type) or hints()[one.name]
        read = reader_of(type_, strict)
    empty = None if strict or needed or default else _unknown_value(type_ or hints()[one.name])
    return _Declared(one.name, meta.get("key") or one.name, read, default, strict or needed, empty)


def _unknown_value(type_: Any) -> Any:
    """Return the value that represents an unknown one of this type."""
    if is_dataclass(type_) or _is_message(type_):
        return _record(type_, {}, False)
    kind = get_origin(type_) or type_
    kind = get_args(type_)[0] if kind is Annotated else kind
    return kind() if kind in (str, bool, tuple, frozenset) else None


def _record(kind: Any, raw: Any, strict: bool, given: Mapping[str, Any] = _NOTHING) -> Any:
    """Build a dataclass from an object, or from a list in the order of the fields."""
    if _is_message(kind) and issubclass(kind, Variant):
        kind = _kind_in(kind, raw)
    declared, values = _declared_fields(kind, strict), dict(given)
    if isinstance(raw, list) and len(raw) <= len(declared):
        raw = dict(zip([field.key for field in declared], raw, strict=False))
    if not isinstance(raw, Mapping):
        raise Odd(_FORMAT)
    for name, key, read, default, needed, empty in declared:
        if name in given or (default and key not in raw):
            continue
        try:
            if key not in raw:
                raise Odd(" is missing")
            values[name] = read(raw[key])
        except Odd as e:
            if needed:
                raise Odd(f" {key!r}{e}") from None
            if not default:
                values[name] = empty
    try:
        return kind(**values)
    except ValueError as e:  # from its own checks
        raise Odd(f": {e}") from None


def _kind_in(family: type[Variant], raw: Any) -> type[Variant]:
    """Return the class that a message says it is of."""
    name = raw.get("kind") if isinstance(raw, Mapping) else None
    if not isinstance(name, str):
        raise Odd(_FORMAT)
    kind = family.kind_of({"kind": name})
    if kind is None:
        raise Odd(f" has the unknown kind {plain(name, 40)!r}")
    return kind


# --- values --------------------------------------------------------------------------------------


def _leaf_reader(fits: Callable[[Any], bool]) -> Reader:
    def read(value: Any) -> Any:
        if not fits(value):
            raise Odd(_FORMAT)
        return value

    return read


def _is_line(value: object) -> bool:
    return isinstance(value, str) and all(map(is_shown, value))


_LEAVES: dict[Any, Reader] = {
    str: _leaf_reader(_is_line),
    AnyText: _leaf_reader(lambda value: isinstance(value, str)),
    int: _leaf_reader(message.is_size),
    float: _leaf_reader(message.is_time),
    bool: _leaf_reader(lambda value: type(value) is bool),
    Any: lambda value: value,  # read where it is used
}
_LOOSE_TEXT = _refuse_values(_read_line)  # control characters are removed
# names of common/message.py, which cannot say it there
_MEANT = {
    "Line": Line,
    "AnyText": AnyText,
    "Signed": Signed,
    "Port": Port,
    "ExitCode": ExitCode,
    "AbsolutePath": AbsolutePath,
    "EnvKey": EnvKey,
    "Document": Document,
    "Any": Any,
}
# get_type_hints is slow: it compiles each of these
_NAMED: dict[Any, Any] = {
    **{str(t): t for t in (tuple[int, ...], tuple[str, ...])},
    **{t.__name__: t for t in (str, int, float, bool)},
    **{f"{t.__name__} | None": t | None for t in (str, int, float, bool)},
}
