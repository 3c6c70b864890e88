"""Declare each message between two processes once, as a class with annotated fields:

    class RankFrozen(Message):
        rank: int
        seconds: float
        why: "Line" = ""  # may be missing

Both sides make and read it by this class alone: a field that one of them lacks is an error of mypy.
The controller checks each value by its type (base/host_answer.py); hosts, which trust it and each
other, check the names. Annotations that Python 3.6 cannot evaluate are quoted.
"""

import re
from functools import lru_cache

MYPY = False  # importing typing takes longer than what a host does for a short request
if MYPY:
    from typing import Any

    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform():
        return lambda kind: kind


Line = str  # the controller leaves out its control characters and ends of lines
AnyText = str  # may contain any characters
Signed = int  # it may be below 0; others are sizes, counts, times

kinds = {}  # type: dict[str, type[Message]]  # all declared messages by name


@dataclass_transform()
class Message(object):
    _names = ()  # type: tuple[str, ...]  # names of the fields, in order
    _types = {}  # type: dict[str, str]  # their annotations
    # fields that hold messages, and the words of their types
    _inner = {}  # type: dict[str, tuple[type[Message], list[str]]]
    _keys = {}  # type: dict[str, str]  # fields with another name in documents

    def __init_subclass__(cls) -> None:
        cls._names, cls._types, cls._inner, kinds[cls.__name__] = (), {}, {}, cls
        for kind in reversed(cls.__mro__):
            for name, type_ in getattr(kind, "__annotations__", {}).items():
                cls._names += (name,) * (name not in cls._names)
                cls._types[name] = getattr(type_, "__name__", type_)
                words = re.findall(r"\w+", cls._types[name])
                for word in words:
                    if word in kinds:
                        cls._inner[name] = kinds[word], words
        type.__setattr__(cls, "__match_args__", cls._names)

    def __init__(self, *values: object, **named: object) -> None:
        fields, names = self.__dict__, self._names
        fields.update({names[index]: value for index, value in enumerate(values)}, **named)
        missing = [name for name in names if name not in fields and not hasattr(self, name)]
        unknown = sorted(fields.keys() - set(names))
        if missing or unknown:
            raise TypeError("%s: %s" % (type(self).__name__, ", ".join(missing + unknown)))

    @classmethod
    def read(cls, document: "dict[str, Any]") -> "Self":
        """Return the message in a document; names that are not declared are ignored. Raise
        TypeError if a value is missing; `check` looks at the others."""
        return cls.read_fields(document)

    @classmethod
    def read_fields(cls, document: "dict[str, Any]") -> "Self":
        if not isinstance(document, dict):
            raise TypeError("%s: not an object: %.80r" % (cls.__name__, document))
        keys = {name: cls._keys.get(name, name) for name in cls._names}
        values = {name: document[key] for name, key in keys.items() if key in document}
        for name in values.keys() & cls._inner.keys():
            (kind, words), value = cls._inner[name], values[name]
            if "list" in words or "tuple" in words:
                values[name] = [kind.read(item) for item in value]
            elif "dict" in words:
                values[name] = {key: kind.read(item) for key, item in value.items()}
            elif value is not None or "None" not in words:
                values[name] = kind.read(value)
        return cls(**values)

    def document(self) -> "dict[str, Any]":
        """Return the message as a document for JSON: the values that were given."""
        keys = self._keys
        return {keys.get(name, name): to_json_value(value) for name, value in vars(self).items()}

    def check(self) -> "Self":
        """Return the message. Raise TypeError if a value is not as its annotation says."""
        for name, value in vars(self).items():
            if not has_type(value, self._types[name]):
                raise TypeError("%s.%s: %.80r" % (type(self).__name__, name, value))
        return self

    def replace(self, **changes: "Any") -> "Self":
        """Return the same message with other values in these fields."""
        return type(self)(**dict(vars(self), **changes))

    def __eq__(self, other: object) -> bool:
        names = self._names
        equal = (getattr(self, name) == getattr(other, name) for name in names)
        return type(self) is type(other) and all(equal)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        values = ("%s=%r" % (name, getattr(self, name)) for name in self._names)
        return "%s(%s)" % (type(self).__name__, ", ".join(values))


class Variant(Message):
    """One of several messages. A class directly below this one is a family, such as the orders of
    the hub; the classes below that are its messages. A document names the class as its `kind`, and
    `read` of the family returns the message of that kind."""

    variants = {}  # type: dict[str, type[Variant]]  # the messages of the family by name

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if Variant in cls.__bases__:
            cls.variants = {}
        else:
            cls.variants[cls.__name__] = cls

    def document(self) -> "dict[str, Any]":
        return dict(super().document(), kind=type(self).__name__)

    @classmethod
    def read(cls, document: "dict[str, Any]") -> "Self":
        """Return the message in a document. Raise TypeError if it is not one of these."""
        kind = cls.kind_of(document) if isinstance(document, dict) else None
        if kind is None:
            raise TypeError("%s: not a message of it: %.80r" % (cls.__name__, document))
        return kind.read_fields(document)

    @classmethod
    def kind_of(cls, document: "dict[str, Any]") -> "type[Self] | None":
        """Return the class of the message in a document, None if it is not one of these."""
        kind = cls.variants.get(str(document.get("kind")))
        return kind if kind is not None and issubclass(kind, cls) else None


PLAIN = {  # type: dict[str, Any]
    "str": str, "Line": str, "AnyText": str, "int": int, "Signed": int, "float": (int, float),
    "bool": bool, "None": type(None),
}  # fmt: skip


def has_type(value: "Any", type_: str) -> bool:
    """Decide whether a value, read from JSON, is as an annotation says."""
    options = split_outside_brackets(type_, "|")
    if len(options) > 1:
        return any(has_type(value, option) for option in options)
    kind, _, inner = type_.partition("[")
    inner = inner[:-1]
    if kind == "list" or inner.endswith("..."):
        item_type = split_outside_brackets(inner, ",")[0]
        return isinstance(value, (list, tuple)) and all(has_type(item, item_type) for item in value)
    if kind == "tuple":
        types = split_outside_brackets(inner, ",")
        fits = isinstance(value, (list, tuple)) and len(value) == len(types)
        return fits and all(has_type(item, part) for item, part in zip(value, types))  # noqa: B905 - not in Python 3.6
    if kind == "dict":
        item_type = split_outside_brackets(inner, ",")[1]
        return isinstance(value, dict) and all(has_type(item, item_type) for item in value.values())
    if kind in kinds:
        return isinstance(value, kinds[kind]) and bool(value.check())
    is_bool = isinstance(value, bool)
    return kind == "Any" or (isinstance(value, PLAIN[kind]) and is_bool == (kind == "bool"))


@lru_cache(maxsize=None)  # a journal has thousands of records, of a few types
def split_outside_brackets(text: str, mark: str) -> "tuple[str, ...]":
    parts, depth = [""], 0
    for char in text:
        depth += (char == "[") - (char == "]")
        if char == mark and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return tuple(part.strip() for part in parts)


def to_json_value(value: object) -> object:
    if isinstance(value, Message):
        return value.document()
    if isinstance(value, dict):
        return {name: to_json_value(item) for name, item in value.items()}
    return [to_json_value(item) for item in value] if isinstance(value, (list, tuple)) else value
