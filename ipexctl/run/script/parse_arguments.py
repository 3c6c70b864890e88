"""Parse a script's command line as its own parser would, from what its code declares."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ipexctl.quick_dataclass import dataclass
from ipexctl.user_code.script_arguments import Argument, ScriptArguments


@dataclass(frozen=True)
class Misfit:
    """What the script's own parser would refuse. `words`: those that it does not accept."""

    words: tuple[str, ...] = ()
    missing: tuple[Argument, ...] = ()
    message: str = ""  # of argparse: a value that is missing, or not a number or a choice


_BAD_VALUE = re.compile(r": invalid (?:int value|float value|choice): ")  # in all versions
_NO_VALUE = ": expected one argument"
_MISSING = "the following arguments are required: "


def find_misfit(script: ScriptArguments, words: Sequence[str]) -> Misfit | None:
    """Return what the script would refuse in these words, None if it accepts them."""
    if any(word in ("-h", "--help", "--version") for word in words):
        return None
    named = {f"a{i}": argument for i, argument in enumerate(script.arguments)}
    try:
        values, unknown = _make_parser(script, named).parse_known_args([*words])
        missing = [a for dest, a in named.items() if a.required and not hasattr(values, dest)]
    except argparse.ArgumentError as e:
        text = str(e)
        if text.startswith(_MISSING):
            missing = [named[dest] for dest in text.removeprefix(_MISSING).split(", ")]
            options = {dest: a for dest, a in named.items() if a.flags}
            unknown = _unknown_options(script, options, words)
        elif script.complete and script.abbreviates and _is_certain_refusal(text, words):
            return Misfit(message=_spell_names(text, named))
        else:
            return None
    if unknown and script.complete and _is_certain(script, unknown):
        return Misfit(words=tuple(unknown))
    return Misfit(missing=tuple(missing)) if missing else None


def _is_certain(script: ScriptArguments, unknown: Sequence[str]) -> bool:
    """Versions of Python differ in which words they give to optional positional arguments."""
    if not re.match("--?[a-zA-Z]", unknown[0]) and unknown[0].startswith("-"):
        return False  # such as -1e-3, a number only for some
    return unknown[0].startswith("-") or all(
        argument.nargs not in ("?", "*") for argument in script.arguments if not argument.flags
    )


def _is_certain_refusal(message: str, words: Sequence[str]) -> bool:
    """Decide whether all versions of Python refuse this: words such as -1e-3 are values or not."""
    if message.endswith(_NO_VALUE):
        return not any(re.match(r"-(?!-?[a-zA-Z])", word) for word in words)
    return _BAD_VALUE.search(message) is not None


def _unknown_options(
    script: ScriptArguments, options: Mapping[str, Argument], words: Sequence[str]
) -> list[str]:
    try:
        rest = _make_parser(script, options).parse_known_args([*words])[1]
    except argparse.ArgumentError:
        return []
    return [word for word in rest if word.startswith("--")]


def _make_parser(script: ScriptArguments, named: Mapping[str, Argument]) -> argparse.ArgumentParser:
    """Make a parser that reads words as the script's does, except that no option is required."""
    parser = _Parser(
        prog="",
        add_help=False,
        allow_abbrev=script.abbreviates,
        exit_on_error=False,
        argument_default=argparse.SUPPRESS,
    )
    for dest, argument in named.items():
        if argument.nargs == 0:
            parser.add_argument(*argument.flags, dest=dest, action="count")
            continue
        more: dict[str, Any] = {"nargs": argument.nargs, "choices": argument.choices or None}
        more["type"] = {"int": int, "float": float}.get(argument.number, str)
        if argument.flags:
            more["dest"] = dest
        parser.add_argument(*(argument.flags or (dest,)), **more)
    return parser


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise argparse.ArgumentError(None, message)


def _spell_names(message: str, named: Mapping[str, Argument]) -> str:
    """Replace our own name of a positional argument by the script's."""
    head, sign, rest = message.partition(": ")
    dest = head.removeprefix("argument ")
    return f"argument {named[dest].name}{sign}{rest}" if dest in named else message
