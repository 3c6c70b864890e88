"""`--help` of every command: 80 columns, options in groups, examples that work, no fragments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from ipexctl import cli
from ipexctl.cli.help import help_layout
from ipexctl.cli.help.help_examples import EXAMPLES
from tests.cli import ipexctl

ROOT = Path(__file__).parents[2]
FRAGMENT = re.compile(r"(?:Of|As|Whose|Whom)\b")


def _tree(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _tree(inner, f"{path} {name}".strip())


COMMANDS = dict(_tree(typer.main.get_command(cli.app)))


def _shown(path: str, *words: str) -> str:
    env = {"PATH": "", "HOME": "/nonexistent", "COLUMNS": "80", "NO_COLOR": "1"}
    done = ipexctl(*path.split(), *words, cwd=ROOT, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("path", COMMANDS)
def test_help_fits_80_columns_and_ends_with_the_examples(path: str) -> None:
    shown = _shown(path, "--help")
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert shown.endswith("\n".join(["", "Examples:", *(f"  {e}" for e in EXAMPLES[path]), ""]))


def test_every_command_has_examples_and_the_first_is_of_it() -> None:
    """That the command line takes them, test_doc_commands.py shows."""
    assert set(EXAMPLES) == set(COMMANDS)
    for path, examples in EXAMPLES.items():
        assert f"ipexctl {path}".strip() in examples[0]


def test_an_option_is_in_the_same_group_in_every_command() -> None:
    """What an option is called in several commands and does in one way."""
    shared = (
        "hostfile", "hosts", "limit", "exclude", "forks", "ssh_config", "ask_pass", "transport",
        "json", "merge", "fetch_limit", "no_fold", "ui", "torch", "mpi", "find_links", "check",
    )  # fmt: skip
    groups: dict[str, set[str]] = {}
    for command in COMMANDS.values():
        for option in command.params:
            if option.name in shared:
                group = getattr(option, "rich_help_panel", None) or "Options"
                groups.setdefault(option.name, set()).add(group)
    assert set(groups) == set(shared)
    assert {name: found for name, found in groups.items() if len(found) > 1} == {}
    assert {group for found in groups.values() for group in found} <= set(help_layout.GROUPS)


def test_no_help_is_a_fragment() -> None:
    texts = [
        text
        for path, command in COMMANDS.items()
        for text in (command.help, command.short_help, *(p.help for p in _documented(command)))
        if text
    ]
    assert len(texts) > 200
    assert [text for text in texts if FRAGMENT.match(text)] == []
    assert [text for text in texts if text[0].islower() and not text.startswith(_NAMES)] == []


_NAMES = ("glibc", "ipexctl", "quick:")  # these begin with a name


def _documented(command: Any) -> list[Any]:
    return [p for p in command.params if getattr(p, "help", None)]


def test_ipexctl_alone_leads_with_the_first_four_commands() -> None:
    done = ipexctl(cwd=ROOT, env={"PATH": "", "HOME": "/nonexistent", "COLUMNS": "80"})
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert len(lines) <= 24
    assert [line for line in lines if len(line) > 80] == []
    first = re.findall(r"ipexctl ([a-z]+)", done.stderr)[:4]
    assert first == ["init", "doctor", "install", "run"]
    words = set(re.findall(r"[a-z]+", done.stderr))
    assert [name for name in cli.Root.entries if name not in words] == []
