"""Parse ipexctl.toml into settings that know their origin."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from ipexctl.base import toml
from ipexctl.base.located_errors import ask_if_meant, nearest_word
from ipexctl.errors import InputError
from ipexctl.quick_dataclass import dataclass

SECTIONS = ("run", "prune")
PATHS = ("hostfile", "ssh_config")
NAME = "[A-Za-z_][A-Za-z0-9_]*"  # of a variable
LARGEST = 999_999


@dataclass(frozen=True)
class SettingKind:
    """The declaration of a setting. `least`: minimum number. `choices`: all values of a text."""

    type: type
    doc: str
    default: Any = None
    least: int = 1
    choices: tuple[str, ...] = ()


_COMMON = {
    "hostfile": SettingKind(str, "File with one host per line, relative to this file."),
    "ssh_config": SettingKind(str, "SSH configuration file to use, relative to this file."),
    "root": SettingKind(str, "ipexctl's folder on the hosts.", "~/.ipexctl"),
    "forks": SettingKind(int, "Maximum number of hosts to work on in parallel.", 64),
}
_PRUNE = {
    "prune.copies": SettingKind(int, "Newest runs that keep their copy of the project.", 1),
    "prune.runs": SettingKind(
        int, "Newest runs that keep their results; 0: all runs.", 20, least=0
    ),
    "prune.days": SettingKind(int, "Days for which every run that has ended is kept.", 14, least=0),
    "prune.project_mb": SettingKind(int, "MB of project files that hosts cache.", 2000),
    "prune.cache_mb": SettingKind(int, "MB of downloaded files on this machine.", 10000),
}


@dataclass(frozen=True)
class Setting:
    """A setting. `origin`: file:line, or the name of an environment variable. `project`: the path
    of the project's file if it is from one."""

    key: str
    value: Any
    origin: str
    project: str = ""


@cache
def setting_kinds() -> dict[str, SettingKind]:
    """Return every key; those of [run] are declared with the options of run."""
    from dataclasses import MISSING, fields

    from ipexctl.base.option import options_of, setting_types
    from ipexctl.local.run_options import RunOptions

    types, specs, run = setting_types(RunOptions), options_of(RunOptions), dict[str, SettingKind]()
    for field in fields(RunOptions):
        if kind := types.get(field.name):
            option = specs[field.name]
            doc = field.metadata.get("doc", option.help)
            least = 1 if option.least is None else option.least
            default = None if field.default is MISSING else field.default
            run[f"run.{field.name}"] = SettingKind(kind, doc, default, least, option.choices)
    return {**_COMMON, **run, **_PRUNE}


def _setting_kind(key: str) -> SettingKind | None:
    """Return a key's kind, None if unknown. Imports the options of run only for them."""
    return _COMMON.get(key) or _PRUNE.get(key) or setting_kinds().get(key)


def parse_settings(text: str, source: str) -> dict[str, Setting]:
    """Parse settings. Raises InputError for invalid TOML, unknown keys and wrong types."""
    try:
        document = toml.loads(text)
    except (ValueError, RecursionError) as e:
        error = InputError(
            f"{source}: invalid TOML",
            why=str(e),
            hint=f"# correct that line of {source}",
            slug="toml-invalid",
        )
        line = re.search(r"at line (\d+)", str(e))
        meant = _meant_line(text, int(line[1])) if line else ("", "")
        raise error.with_meant(*meant, at=(source, int(line[1]) if line else 0, 0)) from None
    settings = {}
    for key, value in _flatten_tables(document):
        origin = f"{source}:{_line_of_key(text, key)}"
        if _setting_kind(key) is None:
            kinds = setting_kinds()
            known = SECTIONS if isinstance(value, dict) else kinds
            near = "" if _is_run_option(key) else nearest_word(key, known)
            message = f"{origin}: {key!r} is not a setting{ask_if_meant(near)}"
            hint = f"available settings: {', '.join(kinds)}"
            word, right = (name.rpartition(".")[2] for name in (key, near))
            error = InputError(message, hint=hint, slug="setting-unknown")
            raise error.with_meant(word, right, at=(source, _line_of_key(text, key), 0))
        settings[key] = Setting(key, check_setting(key, value, origin), origin)
    return settings


_MOST_LINES, _LONGEST_LINE = 1000, 500  # of a file that is corrected
_BOOLEANS = {
    "true": "true",
    "yes": "true",
    "on": "true",
    "false": "false",
    "no": "false",
    "off": "false",
}


def _meant_line(text: str, number: int) -> tuple[str, str]:
    """Return a line that is not TOML, and the same with what is missing, if the file is TOML then:
    a bracket, quotes, or an equals sign; else ("", "")."""
    lines = text.split("\n")
    line = lines[number - 1].strip() if number <= len(lines) <= _MOST_LINES else ""
    line = line if len(line) <= _LONGEST_LINE else ""
    key, sign, value = (part.strip() for part in line.partition("="))
    tried = [f"{line}]", f"{line}}}", f'{line}"']
    if sign and value:
        meant_value = _BOOLEANS.get(value.lower(), f'"{value}"')
        tried += [f"{key} = {meant_value}"] if re.match(r"[\w./~]", value) else []
    if not sign and ":" in line:
        key, _, value = (part.strip() for part in line.partition(":"))
        tried += [f"{key} = {value}", f'{key} = "{value}"']
    for meant in filter(None, tried if line else ()):
        with suppress(ValueError, RecursionError):
            toml.loads("\n".join((*lines[: number - 1], meant, *lines[number:])))
            return line, meant
    return "", ""


def _is_run_option(key: str) -> bool:
    """Return whether this is an option of `run` that only the command line has."""
    from ipexctl.base.option import options_of
    from ipexctl.local.run_options import RunOptions

    return key.removeprefix("run.") in options_of(RunOptions)


_EXAMPLES = {int: "2", bool: "true", dict: '{ NAME = "VALUE" }', tuple: '["NAME", "NAME"]'}


def check_setting(key: str, value: Any, origin: str) -> Any:
    """Return the value if it is of the right kind."""
    setting = _setting_kind(key)
    assert setting, key
    kind, choices = setting.type, setting.choices
    is_text = isinstance(value, str) and value and value.isprintable()
    if kind is str and is_text and value in (choices or (value,)):
        return value
    if kind is bool and isinstance(value, bool):
        return value
    if kind is int and type(value) is int and setting.least <= value <= LARGEST:
        return value
    if kind is dict and isinstance(value, dict):
        return _read_environment(value, origin)
    if kind is tuple and isinstance(value, list) and all(isinstance(v, str) for v in value):
        return tuple(value)
    kinds: dict[type, str] = {
        str: f"one of {', '.join(choices)}" if choices else "text in quotes",
        bool: "true or false",
        int: f"a whole number from {setting.least}",
        dict: "a table: NAME = 'VALUE'",
        tuple: "a list: ['NAME', 'NAME']",
    }
    example = _EXAMPLES.get(kind, f'"{(choices or ("TEXT",))[0]}"')
    is_shown = kind is not dict and isinstance(value, str | int | float)  # a table has secrets
    given = json.dumps(value[:40] if isinstance(value, str) else value) if is_shown else ""
    error = InputError(
        f"{origin}: {key} must be {kinds[kind]}{given and f', not {given}'}",
        hint=f"# {key.rpartition('.')[2]} = {example}",
        slug="setting-invalid",
    )
    file, _, line = origin.rpartition(":")
    if isinstance(value, str | int | float) and kind in (int, bool) and line.isdigit():
        quoted = value.strip() if isinstance(value, str) else ""
        is_number = kind is int and quoted.isdecimal() and int(quoted) >= setting.least
        right = quoted if is_number or (kind is bool and quoted in ("true", "false")) else example
        error.with_meant(given, right, at=(file, int(line), 0))
    raise error


def _read_environment(table: Mapping[str, Any], origin: str) -> dict[str, str]:
    for name, value in table.items():
        if (
            not re.fullmatch(NAME, name)
            or not isinstance(value, str | int)
            or isinstance(value, bool)
        ):
            raise InputError(
                f"{origin}: run.env must map variable names to text or numbers",
                hint=f'{name} = "{str(value).lower()}"' if isinstance(value, bool) else "",
                slug="setting-invalid",
            )
    return {name: str(value) for name, value in table.items()}


def _flatten_tables(document: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return keys with their sections: n in `[run]` is run.n."""
    flat: list[tuple[str, Any]] = []
    for key, value in document.items():
        if key in SECTIONS and isinstance(value, dict):
            flat += [(f"{key}.{name}", item) for name, item in value.items()]
        else:
            flat.append((key, value))
    return flat


def _line_of_key(text: str, key: str) -> int:
    """Return the line of a key, which the TOML parser does not report; 1 if it is not found."""
    section, _, name = key.rpartition(".")
    current = ""
    for number, line in enumerate(text.split("\n"), 1):
        head = re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line)
        if head:
            current = head[1]
            if current in (name, key):
                return number
        for place, word in ((section, name), ("", key)):
            if current == place and re.match(rf"""\s*["']?{re.escape(word)}["']?\s*[=.]""", line):
                return number
    return 1
