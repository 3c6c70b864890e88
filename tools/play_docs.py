"""Steps of plays: their page of the site, and ipexctl/schema/play.json."""

from __future__ import annotations

import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from ipexctl.play.command.step_help import default_text, step_doc
from ipexctl.play.text.play_values import Play, PlayStep
from ipexctl.play.text.step_schema import (
    FALSE,
    TRUE,
    Count,
    HostPattern,
    Step,
    describe_type,
    step_arguments,
)

_HEAD = """\
# Steps of plays

For the keys that can accompany a step's keyword, see [plays](plays.md). An argument in **bold**
is required; the one marked `*` can be given directly after the keyword, with other arguments
alongside it:

    - sh: make
      creates: build

A single value is treated as a one-element list.
"""


def steps_page(steps: Mapping[str, type[Step]]) -> str:
    lines = [_HEAD]
    lines.append(" ".join(f"[{keyword}](#{keyword})" for keyword in steps) + "\n")
    for keyword, kind in steps.items():
        lines += _step(keyword, kind)
    return "\n".join(lines)


def _step(keyword: str, kind: type[Step]) -> Iterator[str]:
    yield f"## {keyword}\n"
    for paragraph in step_doc(kind):
        yield " ".join(paragraph.split()) + "\n"
    yield textwrap.indent(f"- {kind.example}", "    ") + "\n"
    if not step_arguments(kind):
        yield "It has no arguments.\n"
        return
    yield "| argument | | default | |\n|---|---|---|---|"
    for about in step_arguments(kind).values():
        name = f"**{about.name}**" if about.required else about.name
        mark = " `*`" if about.name == kind.main else ""
        default = "" if about.required else default_text(about.default)
        doc = about.doc.replace("|", "\\|")
        yield f"| {name}{mark} | {describe_type(about.kind)} | {default} | {doc} |"
    yield ""


def play_schema(steps: Mapping[str, type[Step]]) -> dict[str, Any]:
    beside = _keys(PlayStep)
    kinds = {keyword: _json_schema(kind) for keyword, kind in steps.items()}
    for kind in steps.values():
        for about in step_arguments(kind).values() if kind.main else ():
            if about.name not in (kind.main, *kinds):  # sh: make, with creates: ... beside it
                beside.setdefault(about.name, {**_json_type(about.kind), "description": about.doc})
    play = {
        "type": "object",
        "properties": _keys(Play),
        "required": ["steps"],
        "additionalProperties": False,
    }
    bare = [
        k for k, kind in steps.items() if not any(a.required for a in step_arguments(kind).values())
    ]
    step = {
        "anyOf": [
            {"enum": bare},
            {
                "type": "object",
                "properties": {**kinds, **beside},
                "additionalProperties": False,
                "oneOf": [{"required": [keyword]} for keyword in steps],
            },
        ]
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A play of ipexctl",
        "anyOf": [play, {"type": "array", "items": play, "minItems": 1, "maxItems": 1}],
        "$defs": {"step": step},
    }


_VALUE = {"type": ["string", "number", "boolean"]}
_VALUES = {"anyOf": [_VALUE, {"type": "array", "items": _VALUE}]}
_STEPS = {"type": "array", "items": {"$ref": "#/$defs/step"}}
_TESTS = {"not": _VALUES, "min": _VALUE, "max": _VALUE}
_TEST = {"type": "object", "properties": _TESTS, "additionalProperties": False}
_ITEM = {"anyOf": [_VALUE, {"type": "object", "additionalProperties": _VALUE}]}
_NODES: dict[str, dict[str, Any]] = {  # of keys that a play's reader reads itself
    "steps": _STEPS,
    "handlers": {"type": "object", "additionalProperties": _STEPS},
    "vars": {"type": "object", "additionalProperties": _VALUE},
    "when": {"type": "object", "additionalProperties": {"anyOf": [*_VALUES["anyOf"], _TEST]}},
    "loop": {"type": "array", "items": _ITEM, "minItems": 1},
}


def _keys(kind: Any) -> dict[str, Any]:
    """Of a play or a step; no names are replaced in them."""
    found = {}
    for about in step_arguments(kind).values():
        schema = _NODES.get(about.name) or _json_type(about.kind)
        if "anyOf" in schema:
            schema = {"anyOf": [one for one in schema["anyOf"] if one != _REFERENCE]}
        found[about.name] = {**schema, "description": about.doc}
    return found


def _json_schema(kind: type[Step]) -> dict[str, Any]:
    """Of what may stand behind the keyword."""
    properties = {
        a.name: {**_json_type(a.kind), "description": a.doc} for a in step_arguments(kind).values()
    }
    required = [a.name for a in step_arguments(kind).values() if a.required]
    whole: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if required:
        whole["required"] = required
    forms = [whole]
    if kind.main and set(required) <= {kind.main}:
        forms.append(_json_type(step_arguments(kind)[kind.main].kind))
    if not required:
        forms.append({"type": "null"})
    doc = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    return {"description": doc, "anyOf": forms} if len(forms) > 1 else {"description": doc, **whole}


def _json_type(kind: Any) -> dict[str, Any]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _json_type(next(k for k in inner if k is not type(None)))
    if origin in (tuple, frozenset) or kind is HostPattern:
        return _VALUES
    if origin is dict:
        return {"type": "object", "additionalProperties": _VALUE}
    if origin is Literal:
        return {"anyOf": [{"enum": list(inner)}, _REFERENCE]}
    if kind is bool:
        return {"anyOf": [{"type": "boolean"}, {"enum": [*TRUE, *FALSE]}, _REFERENCE]}
    if kind is Count:
        return {"type": "integer", "minimum": 0}
    if kind is int:
        return {"anyOf": [{"type": "integer"}, _REFERENCE]}
    return _VALUE


_REFERENCE = {"type": "string", "pattern": r"\$\{"}
