"""Rewrite words of `run` and `tune` before Click reads them: pasted launchers, MPI spellings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, get_args, get_type_hints

from ipexctl.cli import streams
from ipexctl.cli.lazy_group import found_at
from ipexctl.local.environment import environment

if TYPE_CHECKING:
    from ipexctl.user_code.launchers.line_request import LineRequest, TypedOptions
    from ipexctl.user_code.launchers.pasted_line import PastedLine

_MPI_SPELLINGS = {
    "-np": "-n",
    "-ppn": "--ppn",
    "--nproc_per_node": "--ppn",
    "-hosts": "-H",
    "-hostfile": "-f",
    "-machinefile": "-f",
}
OTHERS = ("--help", "-h")  # flags that `run` does not declare
_SAME = {
    "--np": "-n",
    "--nproc-per-node": "--ppn",
    "--hostfile": "-f",
    "--machinefile": "-f",
    "--hosts": "-H",
}


def remove_launcher(args: list[str]) -> list[str]:
    """Turn `run -ppn 2 torchrun train.py` into `run -ppn 2 train.py`; a note says what was taken
    over. What was typed before the launcher wins."""
    groups, rest = _split_at_script(args[1:])
    words = rest[1:] if rest[:1] == ["--"] else rest
    typed_options = _collect_typed_options(groups)
    if "--json" in typed_options.names:  # Click has not read it yet, and an error may follow
        streams.errors_as_json = True
    module = "-m" in typed_options.names
    line = None
    if words and (module or Path(words[0]).is_absolute() or not os.path.isfile(words[0])):
        from ipexctl.local.shipped_tables import known_launchers
        from ipexctl.user_code.launchers import pasted_line

        line = pasted_line.read_pasted_line(words, known_launchers(), module=module)
    if not line:
        return [args[0], *_flatten_groups(groups), *rest]
    from ipexctl.cli.options import print_note
    from ipexctl.user_code.launchers.translated_line import translate_line

    file = _find_accelerate_config(typed_options, line)
    typed = _flatten_groups([group for group in groups if group != ["-m"]])
    replacement = translate_line(line, typed_options, typed, _read_config(file) if file else None)
    print_note(replacement.note)
    return [args[0], *replacement.options, *replacement.script]


def _find_accelerate_config(typed: TypedOptions, line: PastedLine) -> str:
    """Return the Accelerate config that a pasted `accelerate launch` would read."""
    from ipexctl.run.script_files import accelerate_file

    if not line.reads_config or "--accelerate" in typed.names:
        return ""
    path = next((value for item in line.requests for value in item.option_values("config")), "")
    cpu = any("ACCELERATE_USE_CPU=true" in request.env for request in line.requests)
    default = None if cpu else accelerate_file.find_accelerate_file(environment())
    return path or str(default or "")


def spell_for_click(args: list[str]) -> list[str]:
    """Return words in spellings that Click accepts, after those of the --accelerate file."""
    groups, rest = _split_at_script(args[1:])
    typed = _collect_typed_options(groups)
    files = [group[-1].removeprefix("--accelerate=") for group in groups if _is_config(group)]
    request = _split_at_script(_read_config_options(files[-1], typed))[0] if files else []
    spelled = (
        [_MPI_SPELLINGS.get(group[0], group[0]), *group[1:]] for group in (*request, *groups)
    )
    return [args[0], *(word for group in spelled for word in group), *rest]


def _is_config(group: Sequence[str]) -> bool:
    return group[-1].startswith("--accelerate=") or (group[0] == "--accelerate" and len(group) > 1)


def _read_config_options(file: str, typed: TypedOptions) -> list[str]:
    """Return the options of an Accelerate config, and print which of them are used."""
    from ipexctl.base.quoting import quote_for_pasting
    from ipexctl.cli.options import print_note
    from ipexctl.user_code.launchers.line_request import merge_requests

    merged = merge_requests((_read_config(file),), typed)
    options = quote_for_pasting(tuple(merged.options)) or "nothing"
    print_note("; ".join([f"{file}: {options}", *merged.describe_conflicts()]))
    return merged.options


def _read_config(file: str) -> LineRequest:
    from ipexctl.run.script_files import accelerate_file

    return accelerate_file.read_accelerate_file(Path(file))


def _collect_typed_options(groups: Sequence[Sequence[str]]) -> TypedOptions:
    """Return which options were typed, with their variables, hosts and rank counts."""
    from ipexctl.user_code.launchers.line_request import TypedOptions

    names = {_option_name(group[0]) for group in groups}
    env = {
        group[-1].removeprefix("--env=").partition("=")[0]
        for group in groups
        if _option_name(group[0]) == "--env"
    }
    hosts, counts = (
        " ".join(" ".join(group) for group in groups if _option_name(group[0]) in flags)
        for flags in (("-f", "-H"), ("-n", "--ppn"))
    )
    return TypedOptions(frozenset(names), frozenset(env), hosts, counts)


def _option_name(word: str) -> str:
    """Return the usual spelling of an option."""
    name = _MPI_SPELLINGS.get(word, word).partition("=")[0]
    return _SAME.get(name, name if name.startswith("--") else name[:2])


def _flatten_groups(groups: Sequence[Sequence[str]]) -> list[str]:
    return [word for group in groups for word in group]


def _split_at_script(words: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """Return the options before the script, each with its value, and the rest for the script."""
    flags = _flag_options()
    groups: list[list[str]] = []
    remaining = list(words)
    while remaining and remaining[0].startswith("-") and remaining[0] != "--":
        typed = remaining.pop(0)
        name, sign, attached = typed.partition("=")
        if sign and name in _MPI_SPELLINGS:  # -np=4
            typed = name
            remaining.insert(0, attached)
        word = _MPI_SPELLINGS.get(typed, typed)
        alone = word in flags or "=" in word or (word[1:2] != "-" and len(word) > 2)
        value = [] if alone or not remaining else [remaining.pop(0)]
        groups.append([typed, *value])
    return groups, remaining


@cache
def _flag_options() -> frozenset[str]:
    """Return the options that take no value."""
    command = found_at("run.command.cli:run")
    hints = map(get_args, get_type_hints(command, include_extras=True).values())
    infos = [hint[1] for hint in hints if hint[:1] == (bool,)]
    # inside Annotated, Typer keeps the first spelling where it otherwise has the default
    words = (word for info in infos for word in (info.default, *(info.param_decls or ())))
    return frozenset({*OTHERS, *(word for word in words if isinstance(word, str))})
