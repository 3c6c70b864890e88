"""Every `ipexctl ...` line of the documentation and of --help is one that the program takes.

All are read by the real command line; those that need no host are run, too. Lines with a part left
out ([...] or ...) are read up to there.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main

import ipexctl.cli as cli
from ipexctl.errors import IpexctlError
from tests.cli import command_tree, ipexctl

UsageError = typer.BadParameter.__mro__[1]  # Click's: Typer has its own copy of Click, or not
ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "docs/guides/*.md", "examples/*.md", "playbooks/*.md")
    for path in ROOT.glob(pattern)
    if path.name not in ("CHANGELOG.md", "lines.md")
)
COMMAND = re.compile(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(ipexctl(?: .*)?)$")
LEFT_OUT = ("[...]", "...", "…")
PROSE = re.compile(r"\s{2,}(?=[A-Za-z(])")  # in a second column
PLACEHOLDER = re.compile(r"^[A-Z][A-Z_|.]*(?:\.\.\.)?$")
MISSING = re.compile(r"no such file|there is no|or an existing file", re.IGNORECASE)
# they end by themselves, ask no host and change nothing but the folder they are run in
HERE = {"stacks", "explain", "migrate", "config", "hosts"}


@dataclass(frozen=True)
class Line:
    place: str
    text: str


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Lines of code blocks, indented or fenced, with their numbers."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif fenced:
            yield number, line
        elif line.startswith(("    ", "\t")):
            yield number, line.strip()


def commands() -> Iterator[Line]:
    for page in PAGES:
        for number, line in blocks(page.read_text("utf-8")):
            # in a column of old and new lines, as the guides have them
            found = COMMAND.match(re.sub(r"^(?:today|next:|try:|again:)\s+", "", line.strip()))
            if found and "ipexctl:" not in found[1].split()[0]:
                yield Line(f"{page.relative_to(ROOT)}:{number}", found[1])
    for name, command in command_tree():
        for text in command.epilog.splitlines():
            for part in re.split(r" (?:&&|;) ", text.strip()):
                yield Line(f"--help of {name}", part)


LINES = tuple(commands())


def whole(line: Line) -> list[str] | None:
    """The words up to what is left out; None where a shell would not read the line."""
    text = PROSE.split(line.text, 1)[0]
    for mark in LEFT_OUT:
        text = text.split(f" {mark}", 1)[0]
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|>&;")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return None
    while "ipexctl" in words and words[0] != "ipexctl":  # python train.py | ipexctl explain -
        words = words[words.index("ipexctl") :]
    return list(takewhile(lambda word: not set(word) <= set("|>&;"), words))[1:]


def read(words: list[str]) -> None:
    """Raises UsageError or IpexctlError for what the command line refuses."""
    group: Any = typer.main.get_command(cli.app)
    words = cli._spell_for_click(words)
    context = group.make_context("ipexctl", [words[0]], resilient_parsing=True)
    _, command, _ = group.resolve_command(context, words)
    rest = words[1:]
    while hasattr(command, "resolve_command") and rest and not rest[0].startswith("-"):
        _, command, _ = command.resolve_command(context, rest)
        rest = rest[1:]
    command.make_context(words[0], list(rest), parent=context)


def refusal(line: Line) -> str:
    """Why the program does not take the line, or "" if it does."""
    words = whole(line)
    if words is None:
        return "a shell would not read it"
    if not words or words[0] in ("--help", "--version") or PLACEHOLDER.match(words[0]):
        return ""
    cut = any(f" {mark}" in line.text for mark in LEFT_OUT)
    try:
        if words[0] == "run":
            words = cli.rewrite_args(words, "pasted")
        read(words)
    except typer.Exit:
        return ""
    except UsageError as e:
        return "" if cut and type(e).__name__ == "MissingParameter" else str(e)
    except IpexctlError as e:
        # a file of the reader's that is not here is no fault of the line
        return "" if MISSING.search(f"{e.what} {e.why}") else f"{e.what} {e.why}"
    return ""


def test_the_program_takes_every_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    refused = [(line.place, line.text, refusal(line)) for line in LINES]
    assert [found for found in refused if found[2]] == []


def test_most_lines_are_found():
    assert len(LINES) > 200
    assert len({line.place.partition(":")[0] for line in LINES}) > 20


def test_the_lines_that_need_no_host_run(tmp_path: Path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "hosts").write_text("node[01-04]\n")
    (tmp_path / "hostfile").write_text("node[01-04]\n")
    env = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    ran = 0
    for line in LINES:
        words = whole(line) or [""]
        if words[0] not in HERE or any(f" {mark}" in line.text for mark in LEFT_OUT):
            continue
        done = ipexctl(*words, cwd=tmp_path, env=env)
        ran += 1
        missing = MISSING.search(done.stderr)
        assert done.returncode in (0, 1, 3) or missing, (line, done.stderr)
        assert "Traceback" not in done.stderr
    assert ran > 15


@pytest.mark.parametrize("words", [["doctor", "--nosuch"], ["play", "--from"], ["stop"]])
def test_a_wrong_line_is_found(words: list[str]):
    with pytest.raises(UsageError):
        read(words)
