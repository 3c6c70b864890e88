"""What `ipexctl play --list-modules` prints about the kinds of steps."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ipexctl.errors import unknown_value
from ipexctl.play.text.step_schema import Step, describe_type, step_arguments

_WIDTH = 80


def step_help(steps: Mapping[str, type[Step]], keywords: Sequence[str]) -> Iterator[str]:
    """Yield one line for each kind of step, or the full help of those that are asked for."""
    for keyword in keywords:
        if keyword not in steps:
            raise unknown_value("--list-modules", keyword, steps)
    for keyword in keywords:
        yield from _step_details(keyword, steps[keyword])
    if not keywords:
        for keyword, kind in steps.items():
            yield f"{keyword:<10} {step_doc(kind)[0].splitlines()[0]}"


def step_doc(kind: type[Step]) -> list[str]:
    """Return the paragraphs of its documentation."""
    return textwrap.dedent("    " + (kind.__doc__ or "")).strip().split("\n\n")


def default_text(value: Any) -> str:
    if value is None or value in ("", (), {}):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _step_details(keyword: str, kind: type[Step]) -> Iterator[str]:
    for paragraph in (f"{keyword}: {step_doc(kind)[0]}", *step_doc(kind)[1:]):
        yield textwrap.fill(" ".join(paragraph.split()), _WIDTH) + "\n"
    yield f"  - {kind.example}\n"
    for argument in step_arguments(kind).values():
        default = default_text(argument.default)
        requirement = "required" if argument.required else f"default: {default}" if default else ""
        notes = [describe_type(argument.kind), requirement, "may follow the keyword directly"]
        head = ", ".join(filter(None, notes if argument.name == kind.main else notes[:2]))
        yield f"  {argument.name} ({head})"
        yield textwrap.fill(argument.doc, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    yield ""
