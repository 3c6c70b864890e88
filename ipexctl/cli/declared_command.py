"""How a command declares itself, in the `cli.py` of its room: nothing else lists it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import typer

from ipexctl.cli.help_layout import HelpCommand, HelpGroup
from ipexctl.quick_dataclass import dataclass

C = TypeVar("C", bound=Callable[..., Any])


@dataclass(frozen=True)
class Declaration:
    """What a command declares besides its options and its docstring."""

    interrupted: str = ""  # what Ctrl-C leaves, and what to type then
    habits: str = ""  # other tools' names of the command; with an option of it: upgrade=--upgrade
    asks: bool = True  # before it uses a project's settings that are not accepted yet
    # what follows the first argument belongs to that, even if it looks like an option
    keeps_rest: bool = False
    # rewrite the words before Click reads them: a pasted line, as if it was typed so; spellings
    pasted: Callable[[list[str]], list[str]] | None = None
    spelled: Callable[[list[str]], list[str]] | None = None


def command(group: str, place: int, **declared: Any) -> Callable[[C], C]:
    """Declare a function as the command of its name. In `ipexctl --help`, it stands in `group` at
    `place`, with the first sentence of its docstring; its own help has the docstring, of which a
    last part "Examples:" becomes the last section. `declared`: fields of Declaration.

    lazy_group.py reads the group, the place, the name and that sentence from the source, as
    `ipexctl --help` imports no command.
    """

    def declare(function: C) -> C:
        function.declaration = Declaration(**declared)  # type: ignore[attr-defined]
        return function

    return declare


def command_group(group: str, place: int, **declared: Any) -> Callable[[Any], CommandGroup]:
    """Declare a command of commands, such as `env`, in the same way."""

    def declare(function: Callable[[], None]) -> CommandGroup:
        return CommandGroup(function, Declaration(**declared))

    return declare


class CommandGroup(typer.Typer):
    """A command of commands. A function with its docstring declares it."""

    def __init__(self, function: Callable[[], None], declaration: Declaration) -> None:
        texts = split_docstring(function.__doc__)
        name = function.__name__
        super().__init__(
            name=name, cls=HelpGroup, no_args_is_help=True, rich_markup_mode=None, **texts
        )
        self.declaration = declaration

    def command(self, name: str | None = None, **declared: Any) -> Callable[[C], C]:
        def declare(function: C) -> C:
            function.declaration = Declaration(**declared)  # type: ignore[attr-defined]
            register_command(self, name, function)
            return function

        return declare


def register_command(app: typer.Typer, name: str | None, function: Any, brief: str = "") -> None:
    settings = {"allow_interspersed_args": False} if function.declaration.keeps_rest else {}
    texts: dict[str, Any] = {**split_docstring(function.__doc__), "context_settings": settings}
    typer.Typer.command(app, name, cls=HelpCommand, short_help=brief or None, **texts)(function)


def split_docstring(text: str | None) -> dict[str, Any]:
    """Return the help of a command, and its examples as the epilog."""
    help, _, examples = inspect.cleandoc(text or "").partition("\n\nExamples:\n")
    return {"help": help, "epilog": examples}
