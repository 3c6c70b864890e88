"""YAML text -> nodes that know their place. Nothing is constructed, nothing is evaluated.

Aliases are followed without copying, and counted: a small text can't grow into a large tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ipexctl.core.inventory.located_errors import Bad
from ipexctl.core.model import Place
from ipexctl.errors import InputError

MAX_TEXT = 1 << 20
MAX_DEPTH = 40
MAX_NODES = 200_000
_PLAIN_TAGS = tuple(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")
)


@dataclass(frozen=True)
class Scalar:
    """`null`: nothing is written there. `tag` is set where it is none of YAML's plain ones."""

    text: str
    place: Place
    null: bool = False
    tag: str = ""
    weight: int = 1


@dataclass(frozen=True)
class Sequence:
    items: tuple[Node, ...]
    place: Place
    tag: str = ""
    weight: int = 1


@dataclass(frozen=True)
class Mapping:
    items: tuple[tuple[Scalar, Node], ...]
    place: Place
    tag: str = ""
    weight: int = 1

    def get(self, key: str) -> Node | None:
        return next((value for k, value in self.items if k.text == key), None)

    def keys(self) -> set[str]:
        return {key.text for key, _ in self.items}


Node = Scalar | Sequence | Mapping


def read_yaml(text: str, source: str, what: str = "an inventory") -> Node:
    """One document. Raises InputError with the place. `what`: for messages."""
    import yaml

    if len(text) > MAX_TEXT:
        raise InputError(f"{source} is larger than {MAX_TEXT >> 20} MiB, too long for {what}")
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder(source, what)
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.feed(event)
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        place = Place(source, mark.line + 1, mark.column + 1) if mark else Place(source, 1, 1)
        problem = f"this is not YAML: {e.problem or e.context}"
        raise Bad(problem, hint="a value with [ ] : or # needs quotes").placed(place) from None
    except yaml.YAMLError as e:
        place = _reader_place(text, getattr(e, "position", 0), source)
        raise Bad("this character cannot stand in YAML").placed(place) from None
    except UnicodeEncodeError as e:
        place = _reader_place(text, e.start, source)
        raise Bad("this character cannot stand in YAML").placed(place) from None
    if builder.root is None:
        raise InputError(
            f"{source} is empty", hint=f"see docs/{'hosts' if 'inv' in what else 'plays'}.md"
        )
    return builder.root


def _reader_place(text: str, position: int, source: str) -> Place:
    before = text[:position]
    return Place(source, before.count("\n") + 1, position - before.rfind("\n"))


class _Builder:
    """Events of the YAML parser, one by one -> nodes."""

    def __init__(self, source: str, what: str) -> None:
        self._what = what
        self.root: Node | None = None
        self._source = source
        self._open: list[tuple[Any, list[Node]]] = []
        self._anchors: dict[str, Node] = {}

    def feed(self, event: Any) -> None:
        kind = type(event).__name__
        if kind == "ScalarEvent":
            self._add(self._scalar(event), event.anchor)
        elif kind in ("SequenceStartEvent", "MappingStartEvent"):
            if len(self._open) >= MAX_DEPTH:
                raise Bad(f"nested deeper than {MAX_DEPTH}").placed(self._place(event))
            self._open.append((event, []))
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            start, nodes = self._open.pop()
            make = self._sequence if kind == "SequenceEndEvent" else self._mapping
            self._add(make(start, nodes), start.anchor)
        elif kind == "AliasEvent":
            if event.anchor not in self._anchors:
                what = f"there is no anchor &{event.anchor} before this"
                raise Bad(what).placed(self._place(event))
            self._add(self._anchors[event.anchor], None)
        elif kind == "DocumentStartEvent" and self.root is not None:
            raise Bad(f"a second document; {self._what} is one").placed(self._place(event))

    def _add(self, node: Node, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = node
        if self._open:
            self._open[-1][1].append(node)
        else:
            self.root = node

    def _scalar(self, event: Any) -> Scalar:
        plain = event.style in (None, "")
        null = plain and event.value in ("", "~", "null", "Null", "NULL") and not event.tag
        return Scalar(event.value, self._place(event), null, _tag(event))

    def _sequence(self, start: Any, nodes: list[Node]) -> Sequence:
        return Sequence(tuple(nodes), self._place(start), _tag(start), self._weigh(start, nodes))

    def _mapping(self, start: Any, nodes: list[Node]) -> Mapping:
        items: dict[str, tuple[Scalar, Node]] = {}
        merged: list[Mapping] = []
        for key, value in zip(nodes[::2], nodes[1::2], strict=True):
            if not isinstance(key, Scalar):
                raise Bad("a key must be plain text").placed(key.place)
            if key.text == "<<":
                merged += self._merges(value)
            elif key.text in items:
                what = f"{key.text!r} stands there twice"
                why = f"first in line {items[key.text][0].place.line}"
                raise Bad(what, why=why).placed(key.place)
            else:
                items[key.text] = (key, value)
        for mapping in merged:
            for key, value in mapping.items:
                items.setdefault(key.text, (key, value))
        weight = self._weigh(start, [node for item in items.values() for node in item])
        return Mapping(tuple(items.values()), self._place(start), _tag(start), weight)

    def _merges(self, value: Node) -> Iterator[Mapping]:
        for node in value.items if isinstance(value, Sequence) else (value,):
            if not isinstance(node, Mapping):
                raise Bad("<< takes a mapping").placed(value.place)
            yield node

    def _weigh(self, start: Any, nodes: list[Node]) -> int:
        weight = 1 + sum(node.weight for node in nodes)
        if weight > MAX_NODES:
            what = f"more than {MAX_NODES:,} values, aliases written out"
            raise Bad(what).placed(self._place(start))
        return weight

    def _place(self, event: Any) -> Place:
        mark = event.start_mark
        return Place(self._source, mark.line + 1, mark.column + 1)


def _tag(event: Any) -> str:
    tag = event.tag or ""
    return "" if tag in ("", "!", *_PLAIN_TAGS) else str(tag)
