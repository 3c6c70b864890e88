"""Commands that are loaded when they are called: `--help` lists them from this table alone."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import typer
import typer.main

from ipexctl.cli.help.help_layout import HelpCommand, HelpGroup
from ipexctl.quick_dataclass import dataclass


@dataclass(frozen=True)
class CommandEntry:
    """A command. `place` is `module:name` in ipexctl, of a function or a Typer app."""

    place: str
    brief: str
    group: str = "More"
    # what follows the script belongs to the script, even if it looks like an option
    keeps_rest: bool = False

    def load(self, name: str) -> Any:
        found = found_at(self.place)
        if isinstance(found, typer.Typer):
            group = typer.main.get_group(found)
            group.name = name
            return group
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        settings = {"allow_interspersed_args": False} if self.keeps_rest else {}
        alone.command(name, cls=HelpCommand, short_help=self.brief, context_settings=settings)(
            found
        )
        return typer.main.get_command(alone)


def found_at(place: str) -> Any:
    """Import `module:name`: a string, so that no room is loaded for another one's command."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"ipexctl.{module}"), name)


_AGAIN = "run the same command again"
_PUSHED = f"interrupted; the hosts keep the data they had; {_AGAIN}: it continues where it stopped"
# the effect of Ctrl-C, by the first words of the command
INTERRUPTED = {
    ("install",): f"interrupted; the hosts keep the environment they had; {_AGAIN}",
    ("env", "rm"): f"interrupted; environments that are not removed yet are intact; {_AGAIN}",
    ("data", "push"): _PUSHED,
    ("play",): f"interrupted; what ran on the hosts has ended; {_AGAIN}",
    ("tune",): "interrupted; nothing is written",
    ("stop",): "interrupted; the run may still be stopping: ipexctl ps",
    ("wait",): "interrupted; the run continues",
    ("logs",): "interrupted; the run is not affected",
    ("metrics",): "interrupted; the run is not affected",
    ("data", "rm"): f"interrupted; datasets that are not removed yet are intact; {_AGAIN}",
}


# other tools' names of commands
HABITS = {
    "kill": "stop", "cancel": "stop", "scancel": "stop", "status": "ps", "top": "ps", "list": "ps",
    "squeue": "ps", "describe": "ps", "inspect": "ps", "resume": "attach", "reattach": "attach",
    "delete": "rm", "cp": "fetch", "download": "fetch", "exec": "shell", "ssh": "shell",
    "launch": "run", "uninstall": "remove",
    "start": "run", "submit": "run", "rerun": "run", "check": "doctor",
}  # fmt: skip


class Commands(dict[str, Any]):
    """Name -> command; a command is loaded when it is first used."""

    def __init__(self, entries: dict[str, CommandEntry]) -> None:
        super().__init__(dict.fromkeys(entries))
        self.entries = entries

    def __getitem__(self, name: str) -> Any:
        if super().__getitem__(name) is None:
            self[name] = self.entries[name].load(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self.keys() else default  # noqa: SIM118, SIM401

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def values(self) -> Any:
        return [self[name] for name in self]


class LazyGroup(HelpGroup):
    """The commands of `entries`, in that order, and those that were added to the app."""

    entries: dict[str, CommandEntry] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        added = self.commands
        self.commands = Commands(self.entries)
        self.commands.update(added)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as e:
            known = (INTERRUPTED.get(tuple(sys.argv[1:n])) for n in (2, 3))
            if said := str(e) or next(filter(None, known), ""):
                print(f"\r{said}" if sys.stderr.isatty() else said, file=sys.stderr)
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        meant = HABITS.get(args[0]) if args else None
        if meant in self.entries and args[0] not in self.commands:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{meant}'?")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def groups(self) -> dict[str, dict[str, CommandEntry]]:
        """Return title -> name -> command, in the order of `entries`."""
        found: dict[str, dict[str, CommandEntry]] = {}
        for name, entry in self.entries.items():
            found.setdefault(entry.group, {})[name] = entry
        return found

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.entries))
        for title, entries in self.groups().items():
            with formatter.section(title):
                formatter.write_dl([(n.ljust(width), e.brief) for n, e in entries.items()])
