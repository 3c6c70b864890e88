"""The options on the command line that the fields of a dataclass declare (base/option.py)."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ipexctl.base.option import Option, Seconds, options_of


def _seconds(text: str | float, *, least: float) -> float:
    from ipexctl.base.sizes import seconds_of

    seconds = seconds_of(str(text))
    if seconds is None:
        raise typer.BadParameter(f"{text!r} is not a duration such as 90, 90s, 10m, 1h30m or 1d")
    if seconds < least:
        raise typer.BadParameter(f"{text!r} is less than {least:.0f} s")
    return seconds


FROM_ZERO = functools.partial(_seconds, least=0.0)


def declared_parameters(kind: Any) -> Iterator[inspect.Parameter]:
    """A parameter of the command for each option that `kind` declares, as Typer reads them."""
    hints = typing.get_type_hints(kind)
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    for name, about in options_of(kind).items():
        typed, default = _on_command_line(hints[name], about, defaults[name])
        if default is dataclasses.MISSING:
            default = inspect.Parameter.empty
        yield keyword_parameter(name, Annotated[typed, _for_typer(about, hints[name])], default)


def declared(kind: Any, name: str) -> Any:
    """One of these options, for another command: the second part of its Annotated[...]."""
    return _for_typer(options_of(kind)[name], typing.get_type_hints(kind)[name])


def keyword_parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _on_command_line(kind: Any, about: Option, default: Any) -> tuple[Any, Any]:
    """The type of what is typed, and its default. Lists and mappings are options that repeat."""
    if about.typed or about.is_path:
        return about.typed or Path | None, None
    if typing.get_origin(kind) in (tuple, dict):
        return list[str] | None, None
    if _is_duration(kind):
        return (float | None if default is None else float), default
    return kind, default


def _is_duration(kind: Any) -> bool:
    return kind is Seconds or Seconds in typing.get_args(kind)


def _for_typer(about: Option, kind: Any) -> Any:
    if not about.flags:
        return typer.Argument(metavar=about.metavar, help=about.help)
    timed = _is_duration(kind)
    least = 1.0 if about.least is None else about.least
    return typer.Option(
        *about.flags,
        rich_help_panel=about.group or None,
        metavar=about.metavar,
        min=None if timed else about.least,
        parser=functools.partial(_seconds, least=least) if timed else None,
        show_default=about.show_default,
        help=about.help,
    )


Readers = Mapping[str, Callable[[Any], Any]]


def taken(kind: Any, given: dict[str, Any], readers: Readers) -> Any:
    """Takes the options of `kind` out of what Typer read. `readers`: for those whose value is not
    what was typed; they are called also where nothing was."""
    values: dict[str, Any] = {}
    for name in options_of(kind):
        typed = given.pop(name)
        if name in readers:
            values[name] = readers[name](typed)
        elif typed is not None:
            values[name] = _value(typed)
    return kind(**values)


def _value(typed: Any) -> Any:
    if isinstance(typed, Path):
        return str(typed)
    return tuple(typed) if isinstance(typed, list) else typed
