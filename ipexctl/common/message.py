"""Declare each message between two processes once, as a class with annotated fields:

    class RankFrozen(Message):
        rank: int
        seconds: float
        why: "Line" = ""  # may be missing

Both sides make and read it by this class alone: a field that one of them lacks is an error of mypy.
What is read is as declared, or TypeError names the field. The controller, which does not trust its
hosts, reads the same classes by its own rules (base/host_answer.py). Annotations that Python 3.6
cannot evaluate are quoted.
"""

from functools import lru_cache

MYPY = False  # importing typing takes longer than what a host does for a short request
if MYPY:
    from collections.abc import Callable, Mapping
    from typing import Any

    from typing_extensions import Self, dataclass_transform

    Document = dict[str, object]  # opaque: whoever keeps it hands it on and reads nothing in it
else:
    Document = dict

    def dataclass_transform():
        return lambda kind: kind


HUGE = 1 << 62  # no size, count or time reaches it; what one machine takes, all others have to read

Line = str  # the controller leaves out its control characters and ends of lines
AnyText = str  # may contain any characters
Signed = int  # it may be below 0; others are sizes, counts, times
Port = int  # of TCP
ExitCode = int  # as a shell has it: up to 255
AbsolutePath = str
EnvKey = str  # names an environment: 16 hexadecimal digits

kinds = {}  # type: dict[str, type[Message]]  # all declared messages by name
later = {}  # type: dict[str, Callable[[], object]]  # what imports one that few read, by its name


@dataclass_transform()
class Message(object):
    _names = ()  # type: tuple[str, ...]  # names of the fields, in order
    _types = {}  # type: dict[str, str]  # their annotations
    _fields = frozenset()  # type: frozenset[str]  # the same
    _needed = frozenset()  # type: frozenset[str]  # those without a default
    _readers = None  # type: list[tuple[str, Callable[[Any], Any]]] | None  # made when needed

    def __init_subclass__(cls) -> None:
        cls._names, cls._types, cls._readers, kinds[cls.__name__] = (), {}, None, cls
        for kind in reversed(cls.__mro__):
            for name, type_ in getattr(kind, "__annotations__", {}).items():
                cls._names += (name,) * (name not in cls._names)
                cls._types[name] = getattr(type_, "__name__", type_)
        cls._fields = frozenset(cls._names)
        cls._needed = frozenset(name for name in cls._names if not hasattr(cls, name))
        type.__setattr__(cls, "__match_args__", cls._names)

    def __init__(self, *values: object, **named: object) -> None:
        if values:
            given = {self._names[index]: value for index, value in enumerate(values)}
            named = dict(given, **named)
        if not (self._needed.issubset(named) and self._fields.issuperset(named)):
            missing = [name for name in self._names if name in self._needed - named.keys()]
            wrong = missing + sorted(named.keys() - self._fields)
            raise TypeError("%s: %s" % (type(self).__name__, ", ".join(wrong)))
        self.__dict__ = named

    @classmethod
    def read(cls, document: "dict[str, Any]") -> "Self":
        """Return the message in a document; names that are not declared are ignored. Raise
        TypeError if a value is missing, or not as its annotation says."""
        return cls.read_fields(document)

    @classmethod
    def read_fields(cls, document: "dict[str, Any]") -> "Self":
        if not isinstance(document, dict):
            raise TypeError("%s: not an object: %.80r" % (cls.__name__, document))
        if cls._readers is None:
            cls._readers = [(name, reader_of(cls._types[name])) for name in cls._names]
        values = {}
        for name, read in cls._readers:
            if name in document:
                try:
                    values[name] = read(document[name])
                except WrongValue:
                    about = cls.__name__, name, document[name]
                    raise TypeError("%s.%s: %.80r" % about) from None
        return cls(**values)

    def document(self) -> "dict[str, Any]":
        """Return the message as a document for JSON: the values that were given."""
        return {name: to_json_value(value) for name, value in vars(self).items()}

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
    def kind_of(cls, document: "Mapping[str, Any]") -> "type[Self] | None":
        """Return the class of the message in a document, None if it is not one of these."""
        kind = cls.variants.get(str(document.get("kind")))
        return kind if kind is not None and issubclass(kind, cls) else None


class WrongValue(TypeError):
    """A value is not as an annotation says."""


def is_text(value: object) -> bool:
    return type(value) is str


def is_size(value: object) -> bool:
    return type(value) is int and 0 <= value <= HUGE


def is_whole(value: object) -> bool:
    return type(value) is int and -HUGE <= value <= HUGE


def is_port(value: object) -> bool:
    return type(value) is int and 0 <= value <= 65535


def is_exit_code(value: object) -> bool:
    return type(value) is int and 0 <= value <= 255


def is_time(value: object) -> bool:
    return (type(value) is float or type(value) is int) and 0 <= value < HUGE


def is_absolute_path(value: object) -> bool:
    return type(value) is str and value.startswith("/")


def is_env_key(value: object) -> bool:
    return type(value) is str and len(value) == 16 and HEX_DIGITS.issuperset(value)


HEX_DIGITS = frozenset("0123456789abcdef")
DIGITS = frozenset("0123456789")


def is_document(value: object) -> bool:
    return type(value) is dict


def is_number_key(name: str) -> bool:
    """Whether it is a whole number: keys of JSON are text."""
    text = str(name)
    return 0 < len(text) < 20 and set(text) <= DIGITS  # str.isdigit() is true of ² and ٣, too


PLAIN = {  # type: dict[str, Callable[[Any], bool]]  # whether a value of JSON is meant
    "str": is_text,
    "Line": is_text,
    "AnyText": is_text,
    "int": is_size,
    "Signed": is_whole,
    "Port": is_port,
    "ExitCode": is_exit_code,
    "float": is_time,
    "AbsolutePath": is_absolute_path,
    "EnvKey": is_env_key,
    "Document": is_document,
    "bool": lambda value: type(value) is bool,
    "None": lambda value: value is None,
}


@lru_cache(maxsize=None)  # taken apart once: a journal has thousands of records, of a few types
def reader_of(type_: str) -> "Callable[[Any], Any]":
    """Return a function that returns a value, read from JSON, as an annotation says. It raises
    WrongValue, or TypeError for a message in it."""
    options = split_outside_brackets(type_, "|")
    plain = [PLAIN[option] for option in options if option in PLAIN]
    others = [option for option in options if option not in PLAIN]
    if not others:
        return plain_reader(plain)
    if len(options) > 1:
        return reader_of_either(plain, [reader_of(option) for option in others])
    kind, _, inner = type_.partition("[")
    if kind in ("list", "tuple", "dict"):
        return reader_of_many(kind, split_outside_brackets(inner[:-1], ","))
    return find_kind(kind).read


def find_kind(name: str) -> "type[Message]":
    if name not in kinds and name in later:
        later[name]()
    return kinds[name]


def plain_reader(meant: "list[Callable[[Any], bool]]") -> "Callable[[Any], Any]":
    first, others = meant[0], meant[1:]

    def read_plain(value: "Any") -> "Any":
        if not (first(value) or any(fits(value) for fits in others)):
            raise WrongValue
        return value

    return read_plain


def reader_of_either(
    plain: "list[Callable[[Any], bool]]", others: "list[Callable[[Any], Any]]"
) -> "Callable[[Any], Any]":
    def read_either(value: "Any") -> "Any":
        if any(fits(value) for fits in plain):
            return value
        for read in others[:-1]:
            try:
                return read(value)
            except TypeError:
                continue
        return others[-1](value)

    return read_either


def reader_of_many(kind: str, inner: "tuple[str, ...]") -> "Callable[[Any], Any]":
    collection = tuple if kind == "tuple" else list  # type: Callable[[Any], Any]
    reads = [reader_of(part) for part in inner if part != "..."]
    whole = inner[0] == "int"

    def read_items(value: "Any") -> "Any":
        if not isinstance(value, (list, tuple)):
            raise WrongValue
        return collection([reads[0](item) for item in value])

    def read_fixed(value: "Any") -> "Any":
        if not isinstance(value, (list, tuple)) or len(value) != len(reads):
            raise WrongValue
        return tuple([read(item) for read, item in zip(reads, value)])  # noqa: B905 - not in Python 3.6

    def read_dict(value: "Any") -> "Any":
        if not isinstance(value, dict) or (whole and not all(map(is_number_key, value))):
            raise WrongValue
        return {name: reads[1](item) for name, item in value.items()}

    if kind == "dict":
        return read_dict
    return read_fixed if kind == "tuple" and inner[-1] != "..." else read_items


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
