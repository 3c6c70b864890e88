"""How a host's answer becomes facts: each field of a dataclass is read by its type.

    mtu: int | None                                    by its type alone
    status: Literal["ok", "failed"] = "failed"         another value is the default
    hostname: str = field(metadata=by(name))           by a reader of its own

The answer has a field's value under the field's name, or under `key`. Nothing is ever raised: an
odd value is unknown, that is "", None, () or the field's default.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from ipexctl.base.values import MOST, Reader, count_or_none, listed, name, plain, texts, truth
from ipexctl.base.values import by as by

_HUGE = 1 << 62
_CPUS = re.compile(r"\s*(\d{1,18})(?:-(\d{1,18}))?\s*", re.ASCII)
_T = TypeVar("_T")


def record(kind: type[_T], raw: Any, **given: Any) -> _T:
    """A dataclass from an object; `given` are the values that are not read from it."""
    known = raw if isinstance(raw, Mapping) else {}
    for own_name, key, read, default, _ in _fields(kind):  # type: ignore[arg-type]
        if own_name not in given:
            value = read(known.get(key))
            given[own_name] = default if value is None else value
    return kind(**given)


def rows(kind: type[_T], raw: Any) -> tuple[_T, ...]:
    """A list of objects, or of lists that have the values in the order of the fields; or such
    lists by their first value."""
    return tuple(found for row in _entries(raw) if (found := _row(kind, row)) is not None)


def _entries(raw: Any) -> list[Any]:
    if not isinstance(raw, Mapping):
        return listed(raw)
    return [
        [name, *listed(one)] if isinstance(one, list) else [name, one]
        for name, one in islice(raw.items(), MOST)
    ]


# --- readers -------------------------------------------------------------------------------------


def number(value: Any) -> float | None:
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _HUGE
    return float(value) if ok else None


def positive(value: Any) -> float | None:
    return number(value) or None


def positive_count(value: Any) -> int | None:
    return count_or_none(value) or None


def counts(value: Any) -> tuple[int, ...]:
    return tuple(n for n in map(count_or_none, listed(value)) if n is not None)


def address(value: Any) -> str:
    """An IP address without its zone; "" for anything else."""
    text = plain(value).partition("%")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""


def addresses(value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(a for a in map(address, listed(value)) if a))


def int_of(text: Any) -> int | None:
    """A number, or a text that is one: 85, "85", "0x41"."""
    if isinstance(text, int):
        return count_or_none(text)
    text = plain(text, 40)
    try:
        return count_or_none(int(text, 16 if text.startswith("0x") else 10))
    except ValueError:
        return None


def cpu_list(text: Any) -> tuple[int, ...]:
    """0-3,8 -> (0, 1, 2, 3, 8). A text that is not such a list gives ()."""
    found: list[int] = []
    for part in plain(text, 1 << 16).split(","):
        ends = _CPUS.fullmatch(part)
        if not ends or len(found) > MOST:
            return ()
        low, high = int(ends[1]), int(ends[2] or ends[1])
        if high - low > MOST:
            return ()
        found.extend(range(low, high + 1))
    return tuple(found)


# --- types ---------------------------------------------------------------------------------------

_BY_TYPE: dict[str, Reader] = {
    "str": plain,
    "int": count_or_none,
    "int | None": count_or_none,
    "float": number,
    "float | None": number,
    "bool": lambda value: value is True,
    "bool | None": truth,
    "tuple[int, ...]": counts,
    "tuple[str, ...]": texts,
    "Any": lambda value: value,  # read where it is used
}
NAME = by(name)
ADDRESS = by(address)


class _Field(NamedTuple):
    name: str
    key: str  # its name in the host's answer
    read: Reader
    default: Any
    needed: bool


@cache
def _fields(kind: Any) -> tuple[_Field, ...]:
    types = cache(lambda: get_type_hints(kind))  # most classes need none of them
    return tuple(
        _Field(
            name=field.name,
            key=field.metadata.get("key") or field.name,
            read=(
                field.metadata.get("reader")
                or _BY_TYPE.get(str(field.type))
                or _nested(types()[field.name])
            ),
            default=None if field.default is MISSING else field.default,
            needed=field.metadata.get("needed", False),
        )
        for field in fields(kind)
    )


@cache
def _nested(type_: Any) -> Reader:
    """The reader of a dataclass, or of a type that is made of others."""
    kind: Any = get_origin(type_)
    parts: tuple[Any, ...] = get_args(type_)
    if _is_record(type_):
        return partial(record, type_)
    if kind is None:
        return _BY_TYPE[type_.__name__]
    if kind is Literal:
        return lambda value: value if value in parts else None
    if type(None) in parts:
        return partial(_optional, parts[0])
    if kind is tuple and parts[-1] is not Ellipsis:
        return partial(_fixed, parts)
    return partial(rows, parts[0]) if _is_record(parts[0]) else partial(_many, kind, parts[0])


def _is_record(kind: Any) -> bool:
    return is_dataclass(kind)


def _optional(kind: Any, value: Any) -> Any:
    if _is_record(kind):
        return _row(kind, value)
    odd = value is None or (get_origin(kind) and not isinstance(value, (list, Mapping)))
    return None if odd else _nested(kind)(value)


def _fixed(kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...] | None:
    """A list that has a value of each kind; a text may be empty, but not the first value."""
    if not isinstance(value, list) or len(value) != len(kinds):
        return None
    found = tuple(_nested(kind)(one) for kind, one in zip(kinds, value, strict=True))
    unknown = (v is None and not get_args(k) for v, k in zip(found, kinds, strict=True))
    return None if found[0] == "" or any(unknown) else found


def _many(made: Any, kind: Any, value: Any) -> Any:
    read = _nested(kind)
    return made(found for one in _entries(value) if (found := read(one)) not in ("", None, ()))


def _row(kind: type[_T], raw: Any) -> _T | None:
    known = _fields(kind)  # type: ignore[arg-type]
    if isinstance(raw, list) and len(raw) <= len(known):
        raw = dict(zip((field.key for field in known), raw, strict=False))
    if not isinstance(raw, Mapping):
        return None
    found = record(kind, raw)
    unknown = (f.needed and getattr(found, f.name) in ("", None) for f in known)
    return None if any(unknown) else found
