"""The command that was probably meant: as it was typed, with one word corrected or added."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ipexctl.base.host_outcome import HostDown
from ipexctl.base.located_errors import nearest_word
from ipexctl.base.quoting import quote_for_pasting
from ipexctl.base.retry_command import without_secrets
from ipexctl.errors import LEAVE_OUT, InputError, IpexctlError
from ipexctl.local.bounded_read import read_prefix
from ipexctl.local.typed_runs import list_typed_runs

if TYPE_CHECKING:
    from ipexctl.user_code.script_arguments import Argument

_USUAL_SCRIPTS = ("train", "main", "run")  # how names of scripts to start begin
_MOST_SCRIPTS = 2
_MOST_MISTAKES = 8  # of one line
_ASKING = ("rm", "stop")  # commands that ask about some runs, unless --yes is given
_PART = r"(?<![\w.-])%s(?![\w.-])"  # a name in a list or pattern, but not a part of another name


def add_corrected_command(
    error: IpexctlError,
    words: Sequence[str],
    *,
    has_script: bool,
    read: Callable[[list[str]], object] = list,
) -> None:
    """Put the corrected command line before the other lines of the error's hint. `words`: those
    typed after `ipexctl`; `has_script`: they may end with a script and its arguments; `read` raises
    InputError for words with another mistake, which is corrected, too."""
    if error.meant_at[0]:
        command = _correct_file(error, words)
    else:
        corrected = _correct_words(error, words, has_script=has_script)
        command = _spell(_correct_others(corrected, read, has_script=has_script))
    if command and error.folder:
        command = f"{quote_for_pasting(('cd', error.folder))} && {command}"
    if command and os.path.isdir(error.folder or "."):
        others = error.hint.removeprefix(LEAVE_OUT).lstrip(",; ")
        error.hint = f"{command}\n{others}".rstrip("\n")


def _correct_others(
    words: list[str], read: Callable[[list[str]], object], *, has_script: bool
) -> list[str]:
    """Return the words with the mistakes corrected that were hidden by the first one; [] if one of
    them cannot be."""
    for _ in range(_MOST_MISTAKES):
        try:
            read(words)
        except IpexctlError as e:
            if e.meant_at[0] or not (words := _correct_words(e, words, has_script=has_script)):
                return []
        else:
            return words
    return []


def with_corrected_commands(
    downs: Sequence[HostDown], words: Sequence[str]
) -> tuple[HostDown, ...]:
    """Put the corrected command line before the other lines of the hints of hosts that failed; one
    line corrects the names of all of them. `words`: as above."""
    corrected = list(words)
    for down in downs:
        if down.meant[0] and not down.meant_at[0]:
            corrected = _replace_word(corrected, *down.meant) or corrected
    both = _spell(corrected) if corrected != list(words) else ""
    lines = []
    for down in downs:
        line = _corrected_line(down, words, has_script=False) if any(down.meant) else ""
        lines.append(both if line and down.meant[0] and not down.meant_at[0] else line)
    return tuple(
        replace(down, hint=f"{line}\n{down.hint}") if line else down
        for down, line in zip(downs, lines, strict=True)
    )


def _corrected_line(
    error: IpexctlError | HostDown, words: Sequence[str], *, has_script: bool
) -> str:
    if error.meant_at[0]:
        return _correct_file(error, words)
    return _spell(_correct_words(error, words, has_script=has_script))


def _correct_words(
    error: IpexctlError | HostDown, words: Sequence[str], *, has_script: bool
) -> list[str]:
    wrong, right = error.meant
    if isinstance(error, IpexctlError) and error.surplus:
        return _leave_out(words, error.surplus, error.instead)
    if wrong:
        rest = _replace_word(words[1:], wrong, right)
        if words[0] in _ASKING:  # the guess is not what --yes was typed for
            rest = [word for word in rest if word not in ("-y", "--yes")]
        return [*words[:1], *rest] if rest else []
    return _add_option(words, right, has_script=has_script)


def corrected_command(words: Sequence[str], wrong: str, right: str) -> str:
    """Return the command with the right word instead of the wrong one; "" if it is not clear
    where that is."""
    return _spell(_replace_word(words, wrong, right))


def command_instead(words: Sequence[str], wrong: str, right: Sequence[str]) -> str:
    """Return the command with these words instead of the wrong one; "" if it is not clear where
    that is."""
    return _spell(_leave_out(words, [wrong], right))


def command_that_runs(words: Sequence[str]) -> str:
    """Return the line of a launcher, of Python, or of a script as one of `ipexctl run`; "" for
    other words."""
    from ipexctl.local.shipped_tables import known_launchers
    from ipexctl.user_code.launchers.pasted_line import options_of_starter, words_before_python

    if not words:
        return ""
    if words[0] == "queue" and len(words) > 1:
        return _spell(["run", "--queue", *words[1:]])
    launchers = known_launchers()
    if before := words_before_python(words, launchers):
        return _spell(["run", *options_of_starter(words, launchers), *words[len(before) :]])
    found = launchers.find_launcher(words)
    if found and found[0].name == "python" and words[1:2] and words[1].endswith(".py"):
        words = words[1:]
    return _spell(["run", *words]) if found or words[0].endswith(".py") else ""


def command_with_value(words: Sequence[str], options: Iterable[str], wrong: str, right: str) -> str:
    """Return the command with another value of an option: -n two, -n0 or --np=0; "" if it is not
    there."""
    names = tuple(options)
    attached = {f"{name}{sign}{wrong}" for name in names for sign in ("", "=")}
    for i, (before, word) in enumerate(zip(("", *words), words, strict=False)):
        if word in attached or (before in names and word == wrong):
            value = word.removesuffix(wrong) + right
            return _spell([*words[:i], value, *words[i + 1 :]])
    return ""


def command_with_assignment(words: Sequence[str]) -> str:
    """Return the command with NAME=VALUE for `--env NAME VALUE` before the script; "" without."""
    for i in range(len(words) - 3):
        option, name, value, script = words[i : i + 4]
        if option == "--env" and "=" not in name and script.endswith(".py"):
            return _spell([*words[:i], option, f"{name}={value}", *words[i + 3 :]])
    return ""


def command_of_launcher(words: Sequence[str], option: str) -> tuple[str, str]:
    """Return the launcher that has an option which `ipexctl run` does not, and the command as a
    line of that launcher, which `run` and `tune` accept; ("", "") without one."""
    from ipexctl.local.shipped_tables import known_launchers
    from ipexctl.user_code.launchers.pasted_line import read_pasted_line

    start = next((i for i, word in enumerate(words) if word.partition("=")[0] == option), 0)
    launchers = known_launchers()
    for launcher in launchers.all if start else ():
        line = [*launcher.programs[0].split(), *words[start:]] if launcher.programs else []
        with suppress(InputError):  # the line has an option that only ipexctl has
            if launcher.find_flags(option) and read_pasted_line(line, launchers, module=False):
                return launcher.name, _spell([*words[:start], *line])
    return "", ""


def command_of_script(words: Sequence[str], option: str) -> tuple[str, str]:
    """Return the script that has an option which was typed before it, and the command with that
    option behind the script; ("", "") if the script has none of this name."""
    typed = [i for i, word in enumerate(words) if word.partition("=")[0] == option]
    scripts = [i for i, word in enumerate(words) if word.endswith(".py")]
    if not typed or not scripts or typed[0] > scripts[0]:
        return "", ""
    start, script = typed[0], words[scripts[0]]
    arguments = _read_arguments(script)
    found = next((argument for argument in arguments if option in argument.flags), None)
    if found is None or found.nargs not in (None, 0):
        return "", ""
    end = start + (1 if found.nargs == 0 or "=" in words[start] else 2)
    others = [*words[:start], *words[end:]]
    if end > scripts[0] or not (others[start] == script or others[start].startswith("-")):
        return "", ""
    return script, _spell([*others, *words[start:end]])


def commands_with_script(words: Sequence[str]) -> list[str]:
    """Return the command with the script of the run that it resumes, or with each script of this
    folder that may be meant, and the arguments that it requires; [] if there are too many to choose
    from."""
    if command := _command_that_resumes(words):
        return [command]
    names = sorted(path.name for path in Path().glob("*.py"))
    usual = [name for name in names if name.startswith(_USUAL_SCRIPTS)]
    others = [name for name in names if name not in usual]
    meant = [*usual, *others] if len(names) <= _MOST_SCRIPTS else usual
    return [_command_with(words, name) for name in meant[:_MOST_SCRIPTS]]


def _command_that_resumes(words: Sequence[str]) -> str:
    """Return the command with the script of the run after --resume, as it was typed in this folder;
    "" without such a run."""
    pairs = zip(("", *words), words, strict=False)
    values = [word for before, word in pairs if before == "--resume"]
    values += [w.removeprefix("--resume=") for w in words if w.startswith("--resume=")]
    runs = list_typed_runs(Path.cwd()) if len(values) == 1 else {}
    if not runs:
        return ""
    (value,) = values
    names = [name for name in runs if not name[0].isdigit()]  # a similar ID is another run
    name = value if value in runs or value[:1].isdigit() else nearest_word(value, names)
    corrected = words if name == value else _replace_word(words, value, name)
    if name not in runs or not corrected:
        return ""
    typed = runs[name].typed
    return _spell([*corrected, *["-m"] * ("-m" in typed.options), *typed.script])


def _command_with(words: Sequence[str], name: str) -> str:
    """Return the command with a script of this folder and the arguments that it certainly requires;
    behind # if only the reader knows their values."""
    required = [argument for argument in _read_arguments(name) if argument.required]
    line = _spell([*words, name, *(word for argument in required for word in argument.example)])
    return line if all(argument.accepted for argument in required) else f"# {line}"


def _read_arguments(name: str) -> tuple[Argument, ...]:
    """Return the arguments that a script of this folder certainly takes."""
    from ipexctl.user_code.source_reader import read_source

    try:
        source = read_source(name, read_prefix(Path(name)), main=True)
    except OSError:
        return ()
    if source.arguments is None or source.reads_argv or source.changes_argv:
        return ()
    return source.arguments.arguments


def _correct_file(error: IpexctlError | HostDown, words: Sequence[str]) -> str:
    """Return the command that corrects the word in the file, then the one that was typed; "" if the
    file does not have it there."""
    (file, number, column), (wrong, right) = error.meant_at, error.meant
    try:
        lines = read_prefix(Path(file)).decode("utf-8").splitlines()
    except (OSError, ValueError):
        return ""
    text = lines[number - 1] if 0 < number <= len(lines) else ""
    match = re.search(_PART % re.escape(wrong), text)
    if not match or text.find(wrong) != match.start() or column not in (0, match.start() + 1):
        return ""
    pattern = re.sub(r"[\[\]\\*^$/]", r"\\\g<0>", wrong).replace(".", "[.]")
    replacement = re.sub(r"[\\&/]", r"\\\g<0>", right)
    change = f"{number}s/{pattern}/{replacement}/"
    in_place = ("-i", "") if sys.platform == "darwin" else ("-i",)
    return f"{quote_for_pasting(('sed', *in_place, change, file))} && {_spell(words)}"


def _spell(words: Sequence[str]) -> str:
    return quote_for_pasting(("ipexctl", *without_secrets(words))) if words else ""


def _replace_word(words: Sequence[str], wrong: str, right: str) -> list[str]:
    """Return the words with this part of one replaced; [] unless it stands in exactly one place."""
    part = re.compile(_PART % re.escape(wrong))
    matches = [(i, match) for i, word in enumerate(words) for match in part.finditer(word)]
    if len(matches) != 1:
        return []
    ((i, match),) = matches
    word = words[i][: match.start()] + right + words[i][match.end() :]
    return [*words[:i], word, *words[i + 1 :]]


def _leave_out(
    words: Sequence[str], surplus: Sequence[str], instead: Sequence[str] = ()
) -> list[str]:
    """Return the words without these; [] unless they stand in exactly one place."""
    size = len(surplus)
    places = [i for i in range(len(words)) if [*words[i : i + size]] == [*surplus]]
    if len(places) != 1:
        return []
    return [*words[: places[0]], *instead, *words[places[0] + size :]]


def _add_option(words: Sequence[str], option: str, *, has_script: bool) -> list[str]:
    """Return the words with this option: at the end, but before a script and its arguments."""
    if not option or not words:
        return []
    if "--" in words or has_script:
        return [words[0], option, *words[1:]]
    return [*words, option]
