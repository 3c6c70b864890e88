"""Whether a line that ipexctl prints for the user to paste is one that a shell accepts."""

from __future__ import annotations

import re
import shlex
import subprocess
from functools import cache
from typing import Any

import typer

from ipexctl import cli
from ipexctl.errors import IpexctlError

UsageError = typer.BadParameter.__mro__[1]  # Click's: Typer has its own copy of Click, or not
_PROSE = re.compile(r"[;,] (?:or|and|then|if|in|for|with|to)\b|(?<!&&) (?:or|and) |, (?!\w+=)")
_MISSING_FILE = re.compile(r"no such|not found|cannot read|does not exist|there is no|is missing")


def why_not_pastable(line: str) -> str:
    """Return what is wrong with a line after `try:`, `fix:` or `again:`; "" if it can be pasted."""
    if line.startswith("#"):
        return ""
    said = subprocess.run(["bash", "-nc", line], capture_output=True, text=True)
    if said.returncode:
        return said.stderr.strip()
    command = line.partition("   #")[0].partition(" # ")[0]
    if prose := _PROSE.search(re.sub(r"'[^']*'|\"[^\"]*\"|\$\(.*\)", "Q", command)):
        return f"words that are not behind #: {prose[0]!r}"
    parts = (part.strip() for part in re.split(r"&&|;|\|", command))
    return "; ".join(filter(None, (_refusal(part) for part in parts if part.startswith("ipexctl"))))


@cache
def _refusal(command: str) -> str:
    """Return why our own command line does not take the words."""
    numbers = re.sub(r"\bRANKS\w*|\$\$", "2", command)
    words = shlex.split(numbers)[1:]
    if not words or words[0] in ("--help", "--version", "COMMAND"):
        return ""
    cut = " ..." in command
    try:
        _parse(cli.rewrite_args(words, "pasted") if words[0] == "run" else words)
    except typer.Exit:
        return ""
    except UsageError as e:
        return "" if cut and type(e).__name__ == "MissingParameter" else str(e)
    except IpexctlError as e:  # a file that the reader has
        return "" if _MISSING_FILE.search(f"{e.what} {e.why}") else f"{e.what} {e.why}"
    return ""


def _parse(words: list[str]) -> None:
    group: Any = typer.main.get_command(cli.app)
    words = cli._spell_for_click(words)
    context = group.make_context("ipexctl", [words[0]], resilient_parsing=True)
    _, command, _ = group.resolve_command(context, words)
    if command is None:
        raise UsageError(f"no command {words[0]}")
    rest = words[1:]
    while hasattr(command, "resolve_command") and rest and not rest[0].startswith("-"):
        _, command, _ = command.resolve_command(context, rest)
        rest = rest[1:]
    command.make_context(words[0], list(rest), parent=context)
