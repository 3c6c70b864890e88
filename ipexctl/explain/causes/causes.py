"""Find the known causes in the lines of a log.

It is safe on any input: lines are cut to MAX_LINE, and no pattern has nested repeats (a test
checks). It is fast on long logs: the names in a block of lines are collected once and searched for
those of the patterns' fixed words; most blocks have none of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

from ipexctl.base import toml
from ipexctl.quick_dataclass import dataclass

MAX_LINE = 2000
_BLOCK = 500  # lines
_WARNING = re.compile(r"\b[A-Z][A-Za-z]*Warning: ")  # Python's own; the program continued after it
# torch's: [W1120 10:00:00.1 socket.cpp:755], [W socket.cpp:663], W1120 10:00:00.1 42 run.py:7]
_NOTICE = re.compile(
    r"(?:^|[\s\]:>])\[?W(?:\d{4} [\d:.]{8,20})?(?: +\d{1,9})? \S{1,200}:\d{1,6}\]"
    r"|OMP: (?:Info|Warning) #"
)


_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Cause:
    """A known failure; causes.toml says what each field means."""

    slug: str
    title: str
    patterns: tuple[str, ...]
    example: str
    why: str
    fix: str
    by_hand: str = ""
    checks: tuple[str, ...] = ()
    unseen: str = ""
    weak: bool = False
    follows: bool = False
    harmless: bool = False


_LONG = 100


def first_sentence(text: str) -> str:
    """Return the first sentence; of a long one, what stands before its list of cases."""
    sentence = re.split(r"(?<=[a-z)`\d])\. (?=[A-Z])", text, maxsplit=1)[0].rstrip(".")
    if len(sentence) > _LONG:
        sentence = re.split(r"(?<=.{30}); |(?<=.{30}): ", sentence, maxsplit=1)[0]
    return f"{sentence}."


@dataclass(frozen=True)
class Match:
    """A match. `number` counts lines from 1; `again` is how many more lines match."""

    cause: Cause
    number: int
    line: str
    again: int = 0


def parse_causes(text: str) -> tuple[Cause, ...]:
    return tuple(_read_cause(raw) for raw in toml.loads(text)["cause"])


def _read_cause(raw: dict[str, Any]) -> Cause:
    raw = {**raw, "patterns": tuple(raw["patterns"]), "checks": tuple(raw["checks"])}
    return Cause(**raw)


Known = Callable[[], tuple["Cause", ...]]  # the table, which takes 60 ms to read


def find_likeliest_cause(lines: Iterable[str], known: tuple[Cause, ...]) -> Match | None:
    """Return the likeliest cause of an end. A Python warning is not a cause."""
    best: Match | None = None
    for match in _match_blocks((line for line in lines if not _WARNING.search(line)), known):
        if not _match_rank(match):
            return match
        if best is None or _match_rank(match) < _match_rank(best):
            best = match
    return best


def find_causes(lines: Iterable[str], known: tuple[Cause, ...]) -> tuple[Match, ...]:
    """Return each cause once, the likeliest first."""
    matches: dict[str, Match] = {}
    for match in _match_blocks(lines, known):
        seen = matches.setdefault(match.cause.slug, match)
        if seen is not match:
            best = min(seen, match, key=_match_rank)
            matches[match.cause.slug] = replace(best, again=seen.again + 1)
    return tuple(sorted(matches.values(), key=_match_rank))


def _match_blocks(lines: Iterable[str], known: tuple[Cause, ...]) -> Iterator[Match]:
    """Yield the known causes in the lines, block by block."""
    numbered = enumerate(lines, 1)
    while block := [(n, line[:MAX_LINE]) for n, line in islice(numbered, _BLOCK)]:
        text = "\n".join(line for _, line in block)
        names = "\n".join(set(_NAME.findall(text)))  # short if lines repeat, as in logs
        likely = [
            (cause, pattern)
            for name, word, cause, pattern in _pattern_words(known)
            if name in names and word in text
        ]
        for number, line in block if likely else ():
            cause = _cause_of_line(line, likely)
            if cause:
                yield Match(cause, number, line)


def _cause_of_line(line: str, likely: list[tuple[Cause, re.Pattern[str]]]) -> Cause | None:
    """Return the cause that matches one line; a weak one only if no other matches."""
    causes = [cause for cause, pattern in likely if pattern.search(line)]
    return min(causes, key=_rank_of_cause, default=None)


def _match_rank(match: Match) -> int:
    """Return a rank, 0 for the likeliest: a library's or Python's warning is seldom the cause."""
    if _WARNING.search(match.line):
        return 4
    return max(3 if _NOTICE.search(match.line) else 0, _rank_of_cause(match.cause))


def _rank_of_cause(cause: Cause) -> int:
    """Rank a weak cause after others, then one that follows from another, then a harmless one."""
    return 4 if cause.harmless else 2 if cause.follows else int(cause.weak)


@cache
def _pattern_words(known: tuple[Cause, ...]) -> tuple[tuple[str, str, Cause, re.Pattern[str]], ...]:
    """Return the longest name in each pattern's fixed word, that word, and the pattern."""
    words = ((fixed_word(p), cause, re.compile(p)) for cause in known for p in cause.patterns)
    return tuple((max(_NAME.findall(w), key=len, default=""), w, cause, p) for w, cause, p in words)


def fixed_word(pattern: str) -> str:
    """Return the longest text that every matching line must contain; "" if there is none."""
    text = re.sub(r"\{[\d,]+\}", "\0*", pattern)
    while "(" in text.replace("\\(", "") and (inner := _GROUP.sub("\0", text)) != text:
        text = inner
    text = re.sub(r"\[[^\]]*\]|\\.", "\0", text)
    words: list[str] = re.findall(r"[\w :/'=<>#,-]+(?![?*])", text)
    return max(words, key=len, default="")


_GROUP = re.compile(r"(?<!\\)\((?:[^()\\]|\\.)*\)[?*]?")
