"""Parse YAML to nodes with their positions. No values are constructed, and no tags are evaluated.

Aliases are followed without copying, and counted: a small text cannot grow into a large tree.
PyYAML's composer has no such limit, refuses an anchor that is defined again, and makes a cyclic
tree of one that contains itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from ipexctl.base.located_errors import Bad
from ipexctl.base.place import Place
from ipexctl.errors import InputError
from ipexctl.quick_dataclass import dataclass

MAX_TEXT = 1 << 20
MAX_DEPTH = 40
MAX_NODES = 200_000
_PLAIN_TAGS = tuple(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")
)
_WORD = re.compile(r"[^\s'\"\\]+")


@dataclass(frozen=True)
class Scalar:
    """`null`: the value is empty or null. `tag` is set if it is not one of YAML's own. `raw`: the
    source text, if it differs from `text`."""

    text: str
    place: Place
    null: bool = False
    tag: str = ""
    weight: int = 1
    raw: str = field(default="", repr=False, compare=False)

    def place_at(self, index: int) -> Place:
        """Return the position in the file of a character of the text."""
        if not self.raw or not index < len(self.text):
            return Place(self.place.source, self.place.line, self.place.column + index)
        word = _WORD.match(self.text, index)
        token = word[0] if word else self.text[index]
        offset = -1
        for _ in range(self.text.count(token, 0, index) + 1):
            offset = self.raw.find(token, offset + 1)
            if offset < 0:
                return self.place
        before = self.raw[:offset]
        line, start = before.count("\n"), before.rfind("\n") + 1
        column = offset - start + (1 if line else self.place.column)
        return Place(self.place.source, self.place.line + line, column)


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
    """Parse one document. Raises InputError with the position. `what`: for messages."""
    import yaml

    if len(text) > MAX_TEXT:
        raise InputError(
            f"{source} is larger than {MAX_TEXT >> 20} MiB, too long for {what}",
            slug="yaml-too-large",
        )
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder(text, source, what)
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.feed(event)
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        place = Place(source, mark.line + 1, mark.column + 1) if mark else Place(source, 1, 1)
        problem = e.problem or e.context or ""
        if "nesting depth" in problem:  # newer libyaml stops before it reports the outer levels
            raise _too_deep().placed(place) from None
        problem = f"YAML syntax: {_PLAIN.get(problem, problem)}"
        raise Bad(
            problem, why=_where_it_began(e), hint=_yaml_hint(text, e), slug="yaml-syntax"
        ).placed(place) from None
    except (yaml.YAMLError, UnicodeEncodeError) as e:
        position = e.start if isinstance(e, UnicodeEncodeError) else getattr(e, "position", 0)
        place = place_in(text, position, source)
        raise Bad(
            "control characters are not allowed in YAML", slug="yaml-control-character"
        ).placed(place) from None
    if builder.root is None:
        raise InputError(
            f"{source} is empty",
            hint=f"see docs/{'hosts' if 'inv' in what else 'plays'}.md",
            slug="file-empty",
        )
    return builder.root


_PLAIN = {
    "did not find expected node content": "expected a value",
    "found character that cannot start any token": "this character cannot begin a value",
}
_HINTS = {  # by what libyaml says
    "block collection": "start all keys of an entry in the same column",
    "block mapping": "start all keys of an entry in the same column",
    "quoted scalar": "add the closing quote; in double quotes, write \\\\ for a backslash",
    "flow sequence": "add the closing ], or put quotes around a value with [ ] { } : or #",
    "flow mapping": "add the closing }, or put quotes around a value with [ ] { } : or #",
}


def _where_it_began(error: Any) -> str:
    mark, problem = error.context_mark, error.problem_mark
    if not mark or not problem or mark.line == problem.line:
        return ""
    return f"{error.context} that begins on line {mark.line + 1}"


def _yaml_hint(text: str, error: Any) -> str:
    lines, mark = text.splitlines(), error.problem_mark
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "indent with spaces: tabs are not allowed there"
    if "escape" in (error.problem or ""):
        return _HINTS["quoted scalar"].partition("; ")[2]
    if error.problem == "found character that cannot start any token":
        return "quote the value: a tab, @, ` or % cannot begin one"
    hints = [hint for words, hint in _HINTS.items() if words in (error.context or "")]
    return hints[0] if hints else "put quotes around a value with [ ] { } : or #"


def place_in(text: str, position: int, source: str) -> Place:
    """Return the position in the file of a character of its text."""
    preceding = text[:position]
    return Place(source, preceding.count("\n") + 1, position - preceding.rfind("\n"))


class _Builder:
    """Builds nodes from the events of the YAML parser."""

    def __init__(self, text: str, source: str, what: str) -> None:
        self._text = text
        self._merged = 0
        self._what = what
        self.root: Node | None = None
        self._source = source
        self._open: list[tuple[Any, list[Node]]] = []
        self._anchors: dict[str, Node] = {}

    def feed(self, event: Any) -> None:
        """Add one event of the YAML parser. Raises InputError."""
        kind = type(event).__name__
        if kind == "ScalarEvent":
            self._add(self._make_scalar(event), event.anchor)
        elif kind in ("SequenceStartEvent", "MappingStartEvent"):
            if len(self._open) >= MAX_DEPTH:
                raise _too_deep().placed(self._place_of(event))
            self._open.append((event, []))
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            start, nodes = self._open.pop()
            make = self._make_sequence if kind == "SequenceEndEvent" else self._make_mapping
            self._add(make(start, nodes), start.anchor)
        elif kind == "AliasEvent":
            if event.anchor not in self._anchors:
                text = f"the anchor &{event.anchor[:64]} is not defined before *{event.anchor[:64]}"
                raise Bad(text, slug="yaml-unknown-anchor").placed(self._place_of(event))
            self._add(self._anchors[event.anchor], None)
        elif kind == "DocumentStartEvent" and self.root is not None:
            raise Bad(
                f"{self._what} can contain only one YAML document", slug="yaml-several-documents"
            ).placed(self._place_of(event))

    def _add(self, node: Node, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = node
        if self._open:
            self._open[-1][1].append(node)
        else:
            self.root = node

    def _make_scalar(self, event: Any) -> Scalar:
        plain = event.style in (None, "")
        null = plain and event.value in ("", "~", "null", "Null", "NULL") and not event.tag
        raw = self._text[event.start_mark.index : event.end_mark.index]
        same = raw == event.value
        return Scalar(
            event.value, self._place_of(event), null, _event_tag(event), raw="" if same else raw
        )

    def _make_sequence(self, start: Any, nodes: list[Node]) -> Sequence:
        return Sequence(
            tuple(nodes), self._place_of(start), _event_tag(start), self._weigh_nodes(start, nodes)
        )

    def _make_mapping(self, start: Any, nodes: list[Node]) -> Mapping:
        """Return a mapping, with the keys that << merges added. Raises InputError."""
        items: dict[str, tuple[Scalar, Node]] = {}
        merged: list[Mapping] = []
        for key, value in zip(nodes[::2], nodes[1::2], strict=True):
            if not isinstance(key, Scalar):
                message = "expected a name before the colon, not a list or mapping"
                raise Bad(
                    message,
                    hint="quotes around a value that begins with { or [",
                    slug="yaml-key-not-text",
                ).placed(key.place)
            if key.text == "<<":
                merged += self._merged_mappings(value)
            elif key.text in items:
                message = f"duplicate key {key.text[:64]!r}"
                why = f"it is also on line {items[key.text][0].place.line}"
                raise Bad(
                    message, why=why, hint="remove one of them", slug="yaml-duplicate-key"
                ).placed(key.place)
            else:
                items[key.text] = (key, value)
        for mapping in merged:
            self._merged += len(mapping.items)
            if self._merged > MAX_NODES:
                raise _too_many().placed(self._place_of(start))
            for key, value in mapping.items:
                items.setdefault(key.text, (key, value))
        weight = self._weigh_nodes(start, [node for item in items.values() for node in item])
        return Mapping(tuple(items.values()), self._place_of(start), _event_tag(start), weight)

    def _merged_mappings(self, value: Node) -> Iterator[Mapping]:
        for node in value.items if isinstance(value, Sequence) else (value,):
            if not isinstance(node, Mapping):
                raise Bad(
                    "<< takes a mapping, or a list of mappings", slug="yaml-merge-invalid"
                ).placed(value.place)
            yield node

    def _weigh_nodes(self, start: Any, nodes: list[Node]) -> int:
        weight = 1 + sum(node.weight for node in nodes)
        if weight > MAX_NODES:
            raise _too_many().placed(self._place_of(start))
        return weight

    def _place_of(self, event: Any) -> Place:
        mark = event.start_mark
        return Place(self._source, mark.line + 1, mark.column + 1)


def _too_deep() -> Bad:
    return Bad(f"more than {MAX_DEPTH} levels of nesting", slug="yaml-too-deep")


def _too_many() -> Bad:
    why = "every use of an anchor counts all values below it"
    return Bad(f"more than {MAX_NODES:,} values", why=why, slug="yaml-too-large")


def _event_tag(event: Any) -> str:
    tag = event.tag or ""
    return "" if tag in ("", "!", *_PLAIN_TAGS) else str(tag)
