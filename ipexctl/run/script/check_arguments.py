"""Refuse a command line that the script's own parser would refuse in every rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ipexctl.base.located_errors import nearest_word
from ipexctl.base.retry_command import compose_retry_command, with_force
from ipexctl.base.typed_command import Typed
from ipexctl.errors import InputError
from ipexctl.run.script.parse_arguments import Misfit, find_misfit
from ipexctl.user_code.script_arguments import Argument, ScriptArguments
from ipexctl.user_code.source import PythonSource

_MOST_NAMED = 12  # options that are listed


def refuse_misfit(sources: Sequence[PythonSource], args: Sequence[str], typed: Typed) -> None:
    """Raise InputError for an option that the script does not have, and for a required argument
    that is missing."""
    declared = sources[0].arguments if sources else None
    if declared is None or any(s.reads_argv or s.changes_argv for s in sources):
        return
    script = sources[0].path
    misfit = find_misfit(declared, args)
    if misfit is None:
        return
    if misfit.words:
        raise _refuse_words(script, declared, misfit.words, args, typed)
    raise _refuse_values(script, misfit, args, typed)


def _refuse_words(
    script: str, declared: ScriptArguments, unknown: Sequence[str], args: Sequence[str],
    typed: Typed,
) -> InputError:  # fmt: skip
    word, sign, value = unknown[0].partition("=")
    flags = [flag for argument in declared.arguments for flag in argument.flags]
    near = nearest_word(word, flags) if word.startswith("--") else ""
    line = next((a.line for a in declared.arguments if near in a.flags), 0)
    kind = "option" if word.startswith("-") else "argument"
    index = [*args].index(unknown[0])
    if near:
        words = [*args[:index], f"{near}{sign}{value}", *args[index + 1 :]]
        meant, why = f"; did you mean {near}?", f"{near} is defined at {script}:{line}"
    else:
        words, meant = list(args), ""
        for refused in unknown:
            words.remove(refused)
        why = f"its options: {_list_options(declared)}"
    return InputError(
        f"{script} has no {kind} {word}{meant}",
        why=why,
        hint=_commands(typed, words),
        slug="script-option",
    )


def _list_options(declared: ScriptArguments) -> str:
    names = [a.name for a in declared.arguments if a.flags and a.line] or ["none"]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _refuse_values(script: str, misfit: Misfit, args: Sequence[str], typed: Typed) -> InputError:
    if misfit.message:
        return InputError(
            f"{script}: {misfit.message}",
            why="the script's own parser would end every rank with this error",
            hint=with_force(typed),
            slug="script-argument",
        )
    missing = misfit.missing
    names, lines = (", ".join(a.name for a in missing), sorted({a.line for a in missing}))
    places = ", ".join(f"{script}:{line}" for line in lines)
    words = [*args, *(word for argument in missing for word in _placeholder(argument))]
    return InputError(
        f"{script} needs {names}",
        why=f"required at {places}",
        hint=_commands(typed, words),
        slug="script-argument-missing",
    )


def _placeholder(argument: Argument) -> tuple[str, ...]:
    if not argument.flags:
        return (argument.name.upper(),)
    return (argument.name, argument.name.strip("-").replace("-", "_").upper())


def _commands(typed: Typed, words: Sequence[str]) -> str:
    corrected = replace(typed, script=(*typed.script[:1], *words))
    commands = (compose_retry_command(corrected, (), None), with_force(typed))
    return "\n".join(filter(None, commands))
