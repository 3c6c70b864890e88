"""Messages of MPI, Slurm, SSH, Python and the system get their entry; healthy lines get none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipexctl.base import toml
from ipexctl.explain.causes import causes
from ipexctl.shipped_tables import failures

TEXTS = toml.loads(Path(__file__).with_name("messages.toml").read_text("utf-8"))


@pytest.mark.parametrize("message", TEXTS["message"], ids=lambda m: m["cause"])
def test_a_message_gets_its_entry(message: dict[str, str]) -> None:
    found = causes.match([message["text"]], failures())
    assert (found.cause.slug if found else "") == message["cause"]


@pytest.mark.parametrize("line", TEXTS["healthy"])
def test_a_line_of_a_healthy_run_gets_no_entry(line: str) -> None:
    assert causes.matches([line], failures()) == ()


def test_every_alternative_of_a_pattern_is_within_a_group() -> None:
    """fixed_word() takes the words of one alternative for those of the whole pattern."""
    for cause in failures():
        for pattern in cause.patterns:
            assert not _splits(pattern), (cause.slug, pattern)


def _splits(pattern: str) -> bool:
    depth, in_class, escaped = 0, False, False
    for c in pattern:
        if escaped or c == "\\":
            escaped = not escaped
        elif in_class:
            in_class = c != "]"
        elif c == "|" and not depth:
            return True
        else:
            in_class = c == "["
            depth += (c == "(") - (c == ")")
    return False
