"""Commands that are loaded when they are called: `--help` lists them from their sources alone."""

from __future__ import annotations

import functools
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
import typer.main

from ipexctl.cli.declared_command import Declaration, register_command
from ipexctl.cli.help_layout import EVERYTHING, HelpGroup
from ipexctl.quick_dataclass import dataclass

GROUPS = ("Start here", "Hosts", "Stack", "Runs", "Plays", "Files", "More")
RARE = frozenset({"schema", "support", "bundle", "migrate", "stacks"})  # only in `--help all`
_PACKAGE = Path(__file__).parents[1]
_DECLARED = re.compile(
    r'^@command(?:_group)?\(\s*"([^"]+)",\s*(\d+).*?^def (\w+)\(.*?^    r?"""(.+?\.)(?=\s|")',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class CommandEntry:
    """A command. `place` is `module:name` in ipexctl, of a function or a CommandGroup."""

    place: str
    brief: str
    group: str

    def load(self, name: str) -> Any:
        loaded = found_at(self.place)
        if isinstance(loaded, typer.Typer):
            return typer.main.get_group(loaded)
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        register_command(app, name, loaded, self.brief)
        return typer.main.get_command(app)


def found_at(place: str) -> Any:
    """Import `module:name`: a string, so that no room is loaded for another one's command."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"ipexctl.{module}"), name)


@functools.cache
def find_commands() -> dict[str, CommandEntry]:
    """Return name -> command, in the order of the help: all that the `cli.py` of a room, or those
    of its `command/`, declare. They are read, not imported, which would take ten times as long."""
    entries: dict[tuple[int, int, str], CommandEntry] = {}
    for file in (*_PACKAGE.glob("*/cli.py"), *_PACKAGE.glob("*/command/*cli.py")):
        module = ".".join(file.relative_to(_PACKAGE).with_suffix("").parts)
        for group, place, name, brief in _DECLARED.findall(file.read_text("utf-8")):
            entry = CommandEntry(f"{module}:{name}", " ".join(brief.split()), group)
            entries[GROUPS.index(group), int(place), name] = entry
    return {name: entry for (*_, name), entry in sorted(entries.items(), key=lambda item: item[0])}


def declaration_of(name: str) -> Declaration:
    entry = find_commands().get(name)
    return found_at(entry.place).declaration if entry else Declaration(asks=False)


class LazyGroup(HelpGroup):
    """The commands that are found, in that order, and those that were added to the app."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        entries: dict[str, Any] = dict.fromkeys(find_commands())
        self.commands = {**entries, **self.commands}

    def get_command(self, ctx: Any, name: str) -> Any:
        if self.commands.get(name, ...) is None:
            self.commands[name] = find_commands()[name].load(name)
        return self.commands.get(name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, find_commands()))
        everything = EVERYTHING in sys.argv[-1:]
        for title, entries in grouped_commands().items():
            shown = {n: e for n, e in entries.items() if everything or n not in RARE}
            with formatter.section(title):
                formatter.write_dl([(n.ljust(width), e.brief) for n, e in shown.items()])
        if not everything:
            formatter.write(f"\nAll commands: ipexctl --help {EVERYTHING}\n")


def grouped_commands() -> dict[str, dict[str, CommandEntry]]:
    """Return title -> name -> command, in the order of the help."""
    groups: dict[str, dict[str, CommandEntry]] = {}
    for name, entry in find_commands().items():
        groups.setdefault(entry.group, {})[name] = entry
    return groups
