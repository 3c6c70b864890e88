"""The advice of `ipexctl explain`: real error texts, and lines of public threads, get the right
entry, and the commands that the entries name exist."""

from __future__ import annotations

import re
from pathlib import Path

from ipexctl.base import toml
from ipexctl.base.wrapping import wrap_text
from ipexctl.explain.causes import causes
from ipexctl.explain.causes.causes import Cause
from ipexctl.explain.known_failures import known_failures
from tests.cli import command_tree

LINES = [
    line
    for name in (
        "lines.toml",
        "lines_frameworks.toml",
        "lines_more.toml",
        "lines_precise.toml",
        "lines_threads.toml",
    )
    for line in toml.loads(Path(__file__).with_name(name).read_text("utf-8"))["line"]
]
TEXTS = [
    (slug, text)
    for name in ("look_alikes.toml", "other_words.toml")
    for slug, texts in toml.loads(Path(__file__).with_name(name).read_text("utf-8")).items()
    for text in texts
]
KNOWN = {c.slug: c for c in known_failures()}


def cause_of(text: str) -> str:
    found = causes.find_likeliest_cause(text.splitlines(), known_failures())
    return found.cause.slug if found else ""


def test_every_line_of_a_public_thread_gets_its_entry() -> None:
    found = [(cause_of(line["text"]), line) for line in LINES]
    assert [(slug, line) for slug, line in found if slug != line["cause"]] == []
    assert len(found) > 700


# Lines that look alike have other causes: one answer for all of them was wrong for some.
def test_other_words_get_their_entry_and_lines_that_look_alike_that_of_their_own_cause() -> None:
    found = [(cause_of(text), slug, text) for slug, text in TEXTS]
    assert [wrong for wrong in found if wrong[0] != wrong[1]] == []
    assert len(found) > 400


# --- the commands in the advice ------------------------------------------------------------------

_COMMAND = re.compile(r"\bipexctl ([a-z]+)((?: [^\s;,)`]+)*)")


def _told() -> list[tuple[Cause, str, str]]:
    said = [(c, text) for c in known_failures() for text in (c.fix, c.by_hand)]
    return [(c, m[1], m[2]) for c, text in said for m in _COMMAND.finditer(text)]


def test_advice_is_three_lines_at_most() -> None:
    advice = [(c.slug, text) for c in KNOWN.values() for text in (c.fix, c.by_hand)]
    indent = " " * len("  try: ")
    assert [a for a in advice if len(wrap_text(f"  try: {a[1]}", 100, indent)) > 3] == []
    assert [a for a in advice if "\n" in a[1]] == []


def test_every_command_and_option_of_the_advice_exists() -> None:
    commands = dict(command_tree())
    for cause, name, rest in _told():
        if name in ("itself", "go"):  # "options of ipexctl go before the script's name"
            continue
        assert name in commands, f"{cause.slug}: ipexctl {name}"
        grouped = hasattr(commands[name], "commands")
        command = commands[f"{name} {rest.split()[0]}" if grouped else name]
        options = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
        before = re.split(r" SCRIPT| \.\.\.| and | with ", rest)[0]
        used = re.findall(r"(?<= )--?[a-z][a-z-]*", before)
        assert set(used) <= options, (cause.slug, rest)
