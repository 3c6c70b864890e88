"""Edit [run] keys of ipexctl.toml: only their lines change, comments and order stay."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ipexctl.base import toml
from ipexctl.errors import InputError

_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?$")
_INLINE = re.compile(r"(\s*env\s*=\s*)\{[^{}]*\}(\s*(?:#.*)?)$")


def edit_settings(
    text: str,
    env: Mapping[str, str | None],
    options: Mapping[str, Any],
    comments: Mapping[str, str],
) -> str:
    """Return the edited text. `env`: variables; None removes one. `comments`: of variables and
    options. Raises InputError if the file is written in a way that this cannot change."""
    document = toml.loads(text)
    lines = text.splitlines()
    for name, value in options.items():
        _put_line(lines, "run", name, _toml_value(value), comments.get(name, ""))
    if env:
        _put_variables(lines, env, document.get("run", {}).get("env", {}), comments)
    edited = "\n".join(lines) + "\n"
    if _text_means(edited, _wanted_document(document, env, options)):
        return edited
    raise InputError(
        "ipexctl.toml cannot be changed automatically: its [run] table has an unusual form",
        hint="write these lines into it:\n" + new_settings_lines(env, options),
        slug="settings-not-editable",
    )


def new_settings_lines(env: Mapping[str, str | None], options: Mapping[str, Any]) -> str:
    """Return the lines as a new file would have them."""
    lines = ["[run]", *(f"{name} = {_toml_value(value)}" for name, value in options.items())]
    lines = lines if options else []
    if env:
        lines.append("[run.env]")
    for name, value in env.items():
        lines.append(f"# without {name}" if value is None else f"{name} = {_toml_value(value)}")
    return "\n".join(lines)


def _put_variables(
    lines: list[str],
    env: Mapping[str, str | None],
    existing: Mapping[str, Any],
    comments: Mapping[str, str],
) -> None:
    """Set the variables in the inline, dotted or [run.env] form that the file already uses."""
    inline = next((i for i in _section_lines(lines, "run") if _INLINE.match(lines[i])), None)
    if inline is not None:
        merged = {name: value for name, value in {**existing, **env}.items() if value is not None}
        pairs = ", ".join(f"{name} = {_toml_value(value)}" for name, value in merged.items())
        comment = next((f"  # {name}: {comments[name]}" for name in env if name in comments), "")
        lines[inline] = _INLINE.sub(
            lambda m: f"{m[1]}{{ {pairs} }}{m[2] if _is_own(m[2]) else comment}", lines[inline]
        )
        return
    dotted = any(_assigns_key(lines[i], r"env\s*\.\s*\w+") for i in _section_lines(lines, "run"))
    section, prefix = ("run", "env.") if dotted else ("run.env", "")
    for name, value in env.items():
        text = None if value is None else _toml_value(value)
        _put_line(lines, section, f"{prefix}{name}", text, comments.get(name, ""))


def _is_own(comment: str) -> bool:
    return "#" in comment and "ipexctl tune" not in comment


def _put_line(
    lines: list[str], section: str, key: str, value: str | None, comment: str = ""
) -> None:
    """Set a line of a section, which is added if it is missing. `value` None removes the line."""
    indexes = _section_lines(lines, section)
    index = next((i for i in indexes if _assigns_key(lines[i], re.escape(key))), None)
    line = f"{key} = {value}" + (f"  # {comment}" if comment else "")
    if index is not None and value is None:
        del lines[index]
    elif index is not None:
        lines[index] = line
    elif value is not None and indexes:
        last = max(i for i in indexes if lines[i].strip())
        lines.insert(last + 1, line)
    elif value is not None:
        lines += [*([""] if lines and lines[-1].strip() else []), f"[{section}]", line]


def _section_lines(lines: list[str], name: str) -> list[int]:
    """Return the lines of a table, its header included."""
    indexes, current = [], ""
    for i, line in enumerate(lines):
        if head := _HEADER.match(line):
            current = re.sub(r"\s*\.\s*", ".", head[1])
        if current == name:
            indexes.append(i)
    return indexes


def _assigns_key(line: str, key: str) -> bool:
    return bool(re.match(rf"""\s*["']?{key}["']?\s*=""", line))


def _toml_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _wanted_document(
    document: Mapping[str, Any], env: Mapping[str, str | None], options: Mapping[str, Any]
) -> dict[str, Any]:
    run = {**document.get("run", {}), **options}
    variables = {n: v for n, v in {**run.get("env", {}), **env}.items() if v is not None}
    return {**document, "run": {**run, "env": variables}}


def _text_means(text: str, document: Mapping[str, Any]) -> bool:
    try:
        parsed = toml.loads(text)
        return {**parsed, "run": {"env": {}, **parsed.get("run", {})}} == document
    except ValueError:
        return False
