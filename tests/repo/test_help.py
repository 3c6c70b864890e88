"""`--help` of every command: 80 columns, options in groups, examples that work, no fragments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from ipexctl import cli
from ipexctl.cli.help import help_layout
from ipexctl.cli.help.help_examples import EXAMPLES
from tests.cli import ipexctl
from tests.repo.test_words import banned

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


def commands_in(line: str) -> list[list[str]]:
    """The words of each `ipexctl ...` in a line of shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("|&;"):
            found.append([])
        else:
            found[-1].append(word)
    ours = [words for words in found if words[:1] == ["ipexctl"]]
    return [words[1 : words.index(">") if ">" in words else None] for words in ours]


def _parse(words: list[str]) -> None:
    """As main() does it, up to the call of the command."""
    left = cli._spelled(cli._rewritten(words, cli._PASTED))
    command, name = COMMANDS[""], "ipexctl"
    while hasattr(command, "commands"):
        name = left.pop(0)
        command = command.commands[name]
    command.make_context(name, left)


@pytest.mark.parametrize("path", COMMANDS)
def test_help_fits_80_columns_and_ends_with_the_examples(path: str) -> None:
    shown = _shown(path, "--help")
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert shown.endswith("\n".join(["", "Examples:", *(f"  {e}" for e in EXAMPLES[path]), ""]))


@pytest.mark.parametrize("path", COMMANDS)
def test_examples_are_of_the_command_and_the_command_takes_them(path: str) -> None:
    assert f"ipexctl {path}".strip() in EXAMPLES[path][0]
    for example in EXAMPLES[path]:
        found = commands_in(example)
        assert found
        for words in found:
            _parse(words)


def test_every_example_belongs_to_a_command() -> None:
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("words", [["ps", "--no-such"], ["run"], ["env", "rm", "-n", "2"]])
def test_a_wrong_example_is_found(words: list[str]) -> None:
    with pytest.raises(Exception, match="No such option|For example: ipexctl"):
        _parse(words)


def test_what_shell_does_with_an_example_is_left_out() -> None:
    line = "ipexctl ps && python x 2>&1 | ipexctl logs 'a b' > f  # comment"
    assert commands_in(line) == [["ps"], ["logs", "a b"]]


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


def test_no_help_is_a_fragment_or_has_a_banned_phrase() -> None:
    texts = [
        text
        for path, command in COMMANDS.items()
        for text in (command.help, command.short_help, *(p.help for p in _documented(command)))
        if text
    ]
    assert len(texts) > 200
    assert [text for text in texts if FRAGMENT.match(text) or banned(text)] == []
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
    first = [words[0] for line in lines for words in commands_in(line)][:4]
    assert first == ["init", "doctor", "install", "run"]
    words = set(re.findall(r"[a-z]+", done.stderr))
    assert [name for name in cli.Root.entries if name not in words] == []
