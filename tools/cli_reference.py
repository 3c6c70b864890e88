"""The page of the site with the `--help` of every command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main
from typer.testing import CliRunner

from ipexctl import cli

HEAD = """\
# Command reference

The `--help all` output of every command.
"""


def _paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name in getattr(command, "commands", ()):
        yield from _paths(command.get_command(None, name), (*path, name))


def _help(path: tuple[str, ...]) -> str:
    env = {"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1", "HOME": "/nonexistent"}
    done = CliRunner(env=env).invoke(cli.app, [*path, "--help", "all"], prog_name="ipexctl")
    if done.exit_code:
        raise RuntimeError(f"{' '.join(path)} --help: {done.output}")
    return done.stdout.strip()


def page() -> str:
    """Each command has a heading of its own, so that other pages can link to it."""
    parts = [HEAD]
    for path in _paths(typer.main.get_command(cli.app)):
        heading = "#" * max(2, len(path) + 1) + " " + " ".join(("ipexctl", *path))
        parts.append(f"{heading}\n\n```text\n{_help(path)}\n```\n")
    return "\n".join(parts)
