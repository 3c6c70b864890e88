"""Messages of MPI, Slurm, SSH, Python and the system get their entry; healthy lines get none."""

from __future__ import annotations

from pathlib import Path

from ipexctl.base import toml
from ipexctl.explain.causes import causes
from ipexctl.explain.known_failures import known_failures

TEXTS = toml.loads(Path(__file__).with_name("messages.toml").read_text("utf-8"))


def test_every_message_gets_its_entry() -> None:
    found = [
        (causes.find_likeliest_cause([m["text"]], known_failures()), m) for m in TEXTS["message"]
    ]
    wrong = [(hit, m) for hit, m in found if (hit.cause.slug if hit else "") != m["cause"]]
    assert wrong == []
    assert len(found) > 150


def test_no_line_of_a_healthy_run_gets_an_entry() -> None:
    found = {line: causes.find_causes([line], known_failures()) for line in TEXTS["healthy"]}
    assert {line: hits for line, hits in found.items() if hits} == {}
    assert len(found) > 80


def test_every_alternative_of_a_pattern_is_within_a_group() -> None:
    """fixed_word() takes the words of one alternative for those of the whole pattern."""
    for cause in known_failures():
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
