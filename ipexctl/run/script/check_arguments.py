"""Refuse a command line that the script's own parser would refuse in every rank."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from ipexctl.base.located_errors import nearest_word
from ipexctl.base.retry_command import compose_retry_command
from ipexctl.base.typed_command import Typed
from ipexctl.errors import InputError
from ipexctl.run.script.parse_arguments import find_misfit
from ipexctl.user_code.script_arguments import Argument, ScriptArguments
from ipexctl.user_code.source import PythonSource

_REFUSES = "the script's own parser would end every rank with this error"
_MOST_NAMED = 12  # options that are listed
_BAD_VALUE = re.compile(
    r"argument (?:\S*/)?(\S+): (?:invalid [\w ]+: '([^']+)'|expected one argument$)"
)


def refuse_misfit(
    sources: Sequence[PythonSource],
    args: Sequence[str],
    typed: Typed,
    move_first: Callable[[Typed, Sequence[str]], Typed],
) -> None:
    """Raise InputError for an option that the script does not have, and for a required argument
    that is missing. `move_first` puts options of `run` itself before the script."""
    declared = sources[0].arguments if sources else None
    if declared is None or any(s.reads_argv or s.changes_argv for s in sources):
        return
    script = sources[0].path
    misfit = find_misfit(declared, args)
    if misfit is None:
        return
    if misfit.words:
        moved = move_first(typed, misfit.words)
        if moved != typed:
            raise _refuse_own_options(script, misfit.words, moved)
        raise _refuse_words(script, declared, misfit.words, args, typed)
    if misfit.message:
        raise _refuse_value(script, declared, misfit.message, args, typed)
    raise _refuse_missing(script, misfit.missing, args, typed)


def _refuse_own_options(script: str, words: Sequence[str], moved: Typed) -> InputError:
    return InputError(
        f"{script} has no option {words[0]}",
        why=f"{words[0]} is an option of ipexctl run, and those go before the script",
        hint=compose_retry_command(moved, (), None),
        slug="script-option",
    )


def _refuse_words(
    script: str,
    declared: ScriptArguments,
    unknown: Sequence[str],
    args: Sequence[str],
    typed: Typed,
) -> InputError:
    word, sign, value = unknown[0].partition("=")
    flags = [flag for argument in declared.arguments for flag in argument.flags]
    near = _meant_flag(word, flags) if word.startswith("--") else ""
    line = next((a.line for a in declared.arguments if near in a.flags), 0)
    kind = "option" if word.startswith("-") else "argument"
    index = [*args].index(unknown[0])
    if near:
        words = [*args[:index], f"{near}{sign}{value}", *args[index + 1 :]]
        meant, why = f"; did you mean {near}?", f"{near} is defined at {script}:{line}"
        offered = _command(typed, words)
    else:  # without the word, the script would train with a default
        meant, why = "", _REFUSES
        offered = f"# its {kind}s: {_list_names(declared, options=kind == 'option')}"
    return InputError(
        f"{script} has no {kind} {word}{meant}",
        why=why,
        hint=offered,
        slug="script-option",
    )


def _meant_flag(word: str, flags: Sequence[str]) -> str:
    """Return the flag of the same initials, such as --lr for --learning-rate and the reverse, or
    else the most similar one; "" without one."""
    alike = [f for f in flags if word == _initials(f) or f == _initials(word)]
    return alike[0] if len(alike) == 1 else nearest_word(word, flags)


def _initials(flag: str) -> str:
    parts = re.split("[-_]", flag.lstrip("-"))
    return "--" + "".join(part[:1] for part in parts) if parts[1:] else ""


def _list_names(declared: ScriptArguments, *, options: bool) -> str:
    named = (a for a in declared.arguments if bool(a.flags) == options)
    names = [a.name for a in named if a.line] or ["none"]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _refuse_value(
    script: str, declared: ScriptArguments, message: str, args: Sequence[str], typed: Typed
) -> InputError:
    match = _BAD_VALUE.search(message)
    flag = match[1] if match else ""
    argument = next((a for a in declared.arguments if flag in (*a.flags, a.name)), None)
    offered = ""
    if match and argument:
        kind = {"int": "a whole number", "float": "a number"}.get(argument.number, "")
        value = _meant_value(argument, match[2] or "")
        note = f"{flag} takes {kind or ' or '.join(argument.choices)}"
        if words := _with_value(argument, match[2], value, args) if value else ():
            offered = _command(typed, words, note)
    return InputError(
        f"{script}: {message}",
        why=_REFUSES,
        hint=offered,
        slug="script-argument",
    )


def _meant_value(argument: Argument, typed: str) -> str:
    """Return what was probably meant by a refused value, or else, for a number, one that is
    accepted; "" if nothing is."""
    if argument.choices:
        return nearest_word(typed, argument.choices) or argument.choices[0]
    with suppress(ValueError, OverflowError):
        number = float(typed.replace(",", "."))
        if argument.number == "float":
            return f"{number:g}"
        if number == int(number):  # such as 1e3
            return str(int(number))
    return argument.accepted


def _with_value(
    argument: Argument, typed: str | None, value: str, args: Sequence[str]
) -> Sequence[str]:
    """Return the arguments with the value in place of the typed one, or, for None, behind the
    option; () unless that is in one place."""
    spellings: dict[str, tuple[str, ...]] = {typed: (value,)} if typed else {}
    for flag in argument.flags:
        for end in range(3, len(flag) + 1) if flag.startswith("--") else (len(flag),):
            name = flag[:end]  # the parser accepts it shortened
            spellings[name if typed is None else f"{name}={typed}"] = (
                (name, value) if typed is None else (f"{name}={value}",)
            )
    places = [i for i, word in enumerate(args) if word in spellings]
    if len(places) != 1:
        return ()
    (place,) = places
    return (*args[:place], *spellings[args[place]], *args[place + 1 :])


def _refuse_missing(
    script: str, missing: Sequence[Argument], args: Sequence[str], typed: Typed
) -> InputError:
    names, lines = (", ".join(a.name for a in missing), sorted({a.line for a in missing}))
    places = ", ".join(f"{script}:{line}" for line in lines)
    words = [*args, *(word for argument in missing for word in argument.example)]
    choices = "; ".join(f"{a.name}: {' or '.join(a.choices)}" for a in missing if a.choices)
    is_template = not all(argument.accepted for argument in missing)
    return InputError(
        f"{script} needs {names}",
        why=f"required at {places}",
        hint="# " * is_template + _command(typed, words, choices),
        slug="script-argument-missing",
    )


def _command(typed: Typed, words: Sequence[str], note: str = "") -> str:
    corrected = replace(typed, script=(*typed.script[:1], *words))
    command = compose_retry_command(corrected, (), None)
    return f"{command}   # {note}" if command and note else command
