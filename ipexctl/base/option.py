"""An option that is declared once, as a field of the frozen dataclass that a command uses.

Such a field defines the option on the command line with its help (cli/options.py), the argument of
a play's step (play/text/step_schema.py) and the key of ipexctl.toml (local/settings_file.py).
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from ipexctl.quick_dataclass import dataclass


class Seconds(float):
    """A duration: 90, 90s, 10m, 1h30m."""


@dataclass(frozen=True)
class Option:
    """How a field is given on the command line. Without flags it is an argument."""

    flags: tuple[str, ...]
    metavar: str | None
    help: str
    group: str = ""  # the group in the help; "": Options
    least: int | None = None  # minimum of a number
    typed: Any = None  # the type on the command line, if the value has another one
    is_path: bool = False  # a local path, which shells complete
    show_default: bool = True
    in_settings: bool = False
    rare: bool = False  # only `--help all` explains it

    @property
    def choices(self) -> tuple[str, ...]:
        """The choices of a value that is one of a few words: `off|fp16|bf16`."""
        metavar = self.metavar or ""
        return tuple(metavar.split("|")) if "|" in metavar else ()


def option(
    usage: str,
    help: str,
    default: Any = dataclasses.MISSING,
    *,
    in_plays: bool | str = False,
    secret: bool = False,
    **about: Any,
) -> Any:
    """Return a field that is an option. `usage`: its flags and their value, `-n --np N`.

    `in_plays`: a play's step has it as an argument, with this documentation; True: with `help`.
    `secret`: repr never shows the value. `about`: other fields of Option.
    """
    words = usage.split()
    flags = tuple(word for word in words if word.startswith("-"))
    metavar = " ".join(words[len(flags) :]) or None
    metadata: dict[str, Any] = {"option": Option(flags, metavar, help, **about)}
    if in_plays:
        metadata["doc"] = help if in_plays is True else in_plays
    if isinstance(default, dict):
        factory = default.copy
        return dataclasses.field(default_factory=factory, metadata=metadata, repr=not secret)
    return dataclasses.field(default=default, metadata=metadata, repr=not secret)


def options_of(kind: Any) -> Mapping[str, Option]:
    """Return the options of a dataclass by the names of their fields, in the order of the help."""
    fields = dataclasses.fields(kind)
    return {f.name: f.metadata["option"] for f in fields if "option" in f.metadata}


def setting_types(kind: Any) -> Mapping[str, type]:
    """Return the types of the values that ipexctl.toml may set: int, str, bool, dict or tuple."""
    hints = typing.get_type_hints(kind)
    names = [name for name, spec in options_of(kind).items() if spec.in_settings]
    return {name: _without_none(hints[name]) for name in names}


def _without_none(hint: Any) -> type:
    """Return int for `int | None`, dict for `dict[str, str]`."""
    others = [part for part in typing.get_args(hint) if part is not type(None)]
    kind = others[0] if isinstance(hint, types.UnionType) else hint
    kind_only: type = typing.get_origin(kind) or kind
    return kind_only
