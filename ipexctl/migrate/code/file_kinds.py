"""Which reader a file gets: by its name, else by its first line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from ipexctl.migrate.code.launcher_command import Tables
from ipexctl.migrate.code.migrate_finding import Command, Finding, Reading, without_edits
from ipexctl.migrate.code.python_code import read_python
from ipexctl.migrate.code.rules import Rules
from ipexctl.migrate.code.shell_code import Around, ShellReader, package

_SHELL = (".sh", ".bash", ".zsh", ".ksh", ".slurm", ".sbatch", ".sub", ".pbs", ".job")
_SUFFIXES = {
    "python": (".py", ".pyw"), "notebook": (".ipynb",), "shell": _SHELL, "yaml": (".yaml", ".yml"),
    "checkpoint": (".pt", ".pth", ".ckpt", ".bin"),
}  # fmt: skip
_REQUIREMENTS = re.compile(r"(?:.*[-_.])?requirements(?:[-_.].*)?\.(?:txt|in)")
_FIRST_LINE = re.compile(r"#!.*?(?P<python>python)|#!.*?(?P<shell>\b(?:ba|z|da|k)?sh\b)")
_MAGIC = re.compile(r"^([ \t]*)[!%]", re.MULTILINE)


def kind_of(name: str, first_line: str = "") -> str:
    """python, notebook, shell, yaml, requirements, checkpoint; "" for other files."""
    base = name.rpartition("/")[2].lower()
    if _REQUIREMENTS.fullmatch(base):
        return "requirements"
    by_name = next((kind for kind, ends in _SUFFIXES.items() if base.endswith(ends)), "")
    said = _FIRST_LINE.match(first_line)
    return by_name or (str(said.lastgroup) if said and "." not in base else "")


def read_file(kind: str, text: str, tables: Tables, around: Around, script: str) -> Reading:
    """`script`: the one that an Accelerate configuration is for."""
    if kind == "python":
        return read_python(text, tables)
    if kind == "notebook":
        return _notebook(text, tables, around)
    if kind == "yaml":
        from ipexctl.migrate.code.yaml_settings import read_yaml_settings

        return read_yaml_settings(text, tables, around, script)
    if kind == "requirements":
        return _requirements(text, tables.rules)
    return ShellReader(tables, around).read(text)


def _requirements(text: str, rules: Rules) -> Reading:
    found = (
        replace(one, line=number)
        for number, line in enumerate(text.split("\n"), 1)
        if (one := package(rules, line.strip()))
    )
    return Reading(tuple(found))


# --- notebooks -----------------------------------------------------------------------------------


def _notebook(text: str, tables: Tables, around: Around) -> Reading:
    """Cells, and the lines of each cell, are counted from 1. Nothing is edited."""
    try:
        cells = json.loads(text)["cells"]
        sources = [(n, _source(cell)) for n, cell in enumerate(cells, 1) if _is_code(cell)]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as e:
        return Reading(unread=f"not a notebook: {type(e).__name__}: {e}")
    findings, commands, unread = list[Finding](), list[Command](), list[str]()
    for number, source in sources:
        for reading in _cell(source, tables, around):
            findings += (replace(f, cell=number) for f in without_edits(reading).findings)
            commands += (replace(c, cell=number) for c in reading.commands)
            unread += [f"cell {number}, {reading.unread}"] if reading.unread else []
    return Reading(tuple(findings), tuple(commands), "; ".join(unread))


def _cell(source: str, tables: Tables, around: Around) -> list[Reading]:
    """Python, with lines of the shell after ! or %; after %%bash, all of it."""
    first = source.lstrip().partition("\n")[0]
    if re.match(r"%%(?:ba)?sh\b|%%script (?:ba)?sh", first):
        return [ShellReader(tables, around).read(source.replace("%%", "# ", 1))]
    if first.startswith("%%"):
        return []
    lines = source.split("\n")
    shell = "\n".join(_of_shell(line) for line in lines)
    python = _MAGIC.sub(r"\1pass  # ", source)
    return [ShellReader(tables, around).read(shell), read_python(python, tables)]


def _of_shell(line: str) -> str:
    line = line.lstrip()
    if line.startswith("!"):
        return line[1:]
    for magic in ("%env ", "%set_env "):
        if line.startswith(magic):
            name, _, value = line.removeprefix(magic).replace("=", " ", 1).partition(" ")
            return f"export {name}={value.strip()}"
    return ""


def _is_code(cell: Any) -> bool:
    return bool(cell.get("cell_type") == "code")


def _source(cell: Any) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)
