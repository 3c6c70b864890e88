"""The reader for a file: by its name, else by its first line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ipexctl.base.quoting import quote_for_pasting
from ipexctl.base.yaml_nodes import Mapping, Node, read_yaml
from ipexctl.errors import InputError
from ipexctl.migrate.code.launcher_command import Tables, not_converted
from ipexctl.migrate.code.python_code import read_python
from ipexctl.migrate.code.shell_code import ShellReader, find_package
from ipexctl.user_code.launchers.accelerate_config import read_config
from ipexctl.user_code.migration_rules import (
    LauncherRewrite,
    MigrationFinding,
    Reading,
    Rules,
    make_finding,
)
from ipexctl.user_code.source import PythonSource

Sources = Callable[[str], PythonSource | None]  # path as a shell file names it -> the script
_SHELL = (".sh", ".bash", ".zsh", ".ksh", ".slurm", ".sbatch", ".sub", ".pbs", ".job")
_SUFFIXES = {
    "python": (".py", ".pyw"),
    "shell": _SHELL,
    "yaml": (".yaml", ".yml"),
}
_REQUIREMENTS = re.compile(r"(?:.*[-_.])?requirements(?:[-_.].*)?\.(?:txt|in)")
_FIRST_LINE = re.compile(r"#!.*?(?P<python>python)|#!.*?(?P<shell>\b(?:ba|z|da|k)?sh\b)")


def kind_of(name: str, first_line: str = "") -> str:
    """Return python, shell, yaml or requirements; "" for other files."""
    base = name.rpartition("/")[2].lower()
    if _REQUIREMENTS.fullmatch(base):
        return "requirements"
    by_name = next((kind for kind, ends in _SUFFIXES.items() if base.endswith(ends)), "")
    shebang = _FIRST_LINE.match(first_line)
    return by_name or (str(shebang.lastgroup) if shebang and "." not in base else "")


def read_file(
    kind: str, text: str, tables: Tables, source: Sources, config: Sequence[str] = ()
) -> Reading:
    """Read a file. `config`: of an Accelerate configuration: its path, and the script it is for."""
    if kind == "python":
        return read_python(text, tables)
    if kind == "yaml":
        return _accelerate_config(text, tables, config)
    if kind == "requirements":
        return _read_requirements(text, tables.rules)
    return ShellReader(tables, source).read(text)


def _read_requirements(text: str, rules: Rules) -> Reading:
    findings = (
        replace(finding, line=number)
        for number, line in enumerate(text.split("\n"), 1)
        if (finding := find_package(rules, line.strip()))
    )
    return Reading(tuple(findings))


# --- the configuration of Accelerate ------------------------------------------------------------

_ACCELERATE = re.compile(
    r"^(?:compute_environment|distributed_type|ipex_config|mpirun_config)[ \t]*:", re.MULTILINE
)


def _accelerate_config(text: str, tables: Tables, config: Sequence[str]) -> Reading:
    if not _ACCELERATE.search(text):
        return Reading()
    try:
        root = read_yaml(text, "Accelerate config", "an Accelerate config")
    except InputError as e:
        return Reading(unread=e.what)
    try:
        read_config(text, "Accelerate config", tables.keys)
        words = ("ipexctl", "run", "--accelerate", *config)
        rewrite = LauncherRewrite(1, "accelerate launch", quote_for_pasting(words))
    except InputError as e:
        rewrite = replace(not_converted(e, "accelerate launch"), line=1)
    return Reading(tuple(_find_keys(root, "", tables.rules)), (rewrite,))


def _find_keys(node: Node, above: str, rules: Rules) -> Iterator[MigrationFinding]:
    for key, value in node.items if isinstance(node, Mapping) else ():
        name = f"{above}{key.text}"
        if rule := rules.find("key", name):
            yield make_finding(rule, key.text, key.place.line)
        elif isinstance(value, Mapping) and not above:
            yield from _find_keys(value, f"{name}.", rules)
